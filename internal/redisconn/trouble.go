package redisconn

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
)

// A Trouble is why a Redis as a whole does not do what it is told, whatever the
// command. It is from a closed set, fit for a metric's label.
type Trouble string

// The troubles.
const (
	None       Trouble = ""
	Away       Trouble = "away"        // it cannot be reached, or does not answer
	Refused    Trouble = "refused"     // the credentials are
	Crowded    Trouble = "crowded"     // it takes no more clients
	Full       Trouble = "full"        // of keys
	ReadOnly   Trouble = "read_only"   // a replica
	NoReplicas Trouble = "no_replicas" // it wants more of them than there are
	NotSaved   Trouble = "not_saved"   // what it is told is
	Starting   Trouble = "starting"    // it loads its keys
	Busy       Trouble = "busy"        // with one script
	Broken     Trouble = "broken"      // a Cluster is
)

// Troubles are all but None.
var Troubles = []Trouble{Away, Refused, Crowded, Full, ReadOnly, NoReplicas, NotSaved, Starting, Busy, Broken}

// replies are the errors that Redis answers in trouble. Some have a text alone,
// after the word that stands for any error.
var replies = []struct {
	says    string
	trouble Trouble
}{
	{"NOAUTH ", Refused}, {"WRONGPASS ", Refused}, {"without any password configured", Refused}, {"ERR invalid password", Refused},
	{"max number of clients", Crowded},
	{"OOM ", Full},
	{"READONLY ", ReadOnly},
	{"NOREPLICAS ", NoReplicas},
	{"MISCONF ", NotSaved},
	{"LOADING ", Starting}, {"MASTERDOWN ", Starting},
	{"BUSY ", Busy},
	{"CLUSTERDOWN ", Broken}, {"redis: cluster has no nodes", Broken},
}

// TroubleOf says what trouble an error of a command tells of, None if it is that
// command's own. It goes by the text as well: asynq keeps nothing else of what
// Redis has answered.
func TroubleOf(err error) Trouble {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) {
		return None
	}
	text := pipeline.Said(err)
	for _, reply := range replies {
		if strings.Contains(text, reply.says) {
			return reply.trouble
		}
	}
	var network net.Error // the end of a deadline, too
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) {
		return Away
	}
	for _, says := range []string{"dial tcp", "i/o timeout", "connection refused", "connection reset", "broken pipe", "all sentinels"} {
		if strings.Contains(text, says) {
			return Away
		}
	}
	return None
}

// Says is the trouble in a few words that follow "Redis".
func (t Trouble) Says() string {
	switch t {
	case Refused:
		return "refuses the credentials (NOAUTH or WRONGPASS)"
	case Crowded:
		return "takes no more clients"
	case Full:
		return "is full (OOM)"
	case ReadOnly:
		return "is a read-only replica (READONLY)"
	case NoReplicas:
		return "has too few replicas to write (NOREPLICAS)"
	case NotSaved:
		return "cannot save what it is told (MISCONF)"
	case Starting:
		return "is starting (LOADING)"
	case Busy:
		return "is busy with a script (BUSY)"
	case Broken:
		return "is a Cluster that is down (CLUSTERDOWN)"
	}
	return "does not answer"
}
