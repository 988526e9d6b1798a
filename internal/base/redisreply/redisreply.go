// Package redisreply tells the errors of Redis and its clients apart. Most of them have
// nothing but a text, which no other code looks into.
package redisreply

import (
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Trouble is why a Redis as a whole does not do what it is told, whatever the
// command. It is from a closed set, fit for a metric's label.
type Trouble string

// The troubles.
const (
	None       Trouble = ""
	Away       Trouble = "away"        // it cannot be reached, or does not answer
	Refused    Trouble = "refused"     // it refuses our credentials
	Crowded    Trouble = "crowded"     // it takes no more clients
	Full       Trouble = "full"        // its memory is full
	ReadOnly   Trouble = "read_only"   // it is a replica
	NoReplicas Trouble = "no_replicas" // it has fewer replicas than it wants
	NotSaved   Trouble = "not_saved"   // it cannot save to disk, and takes no writes
	Starting   Trouble = "starting"    // it loads its keys
	Busy       Trouble = "busy"        // it runs one script
	Broken     Trouble = "broken"      // its Cluster is down
)

// Troubles are all but None.
var Troubles = []Trouble{Away, Refused, Crowded, Full, ReadOnly, NoReplicas, NotSaved, Starting, Busy, Broken}

// troubles are the errors that Redis answers in trouble. Some have a text alone,
// after the word that stands for any error.
var troubles = []struct {
	says    string
	trouble Trouble
}{
	{"NOAUTH ", Refused}, {"WRONGPASS ", Refused}, {"without any password configured", Refused}, {"ERR invalid password", Refused},
	{"unauthenticated ", Refused}, // so a command of many or long arguments is refused
	{"max number of clients", Crowded},
	{"OOM ", Full},
	{"READONLY ", ReadOnly},
	{"NOREPLICAS ", NoReplicas},
	{"MISCONF ", NotSaved},
	{"LOADING ", Starting}, {"MASTERDOWN ", Starting},
	{"BUSY ", Busy},
	{"CLUSTERDOWN ", Broken}, {"redis: cluster has no nodes", Broken},
}

// Of returns what trouble an error of a command tells of, None if it is that command's
// own. It goes by the text as well: a script's error has nothing else.
func Of(err error) Trouble {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) {
		return None
	}
	text := Said(err)
	for _, reply := range troubles {
		if strings.Contains(text, reply.says) {
			return reply.trouble
		}
	}
	var network net.Error // the end of a deadline, too
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) {
		return Away
	}
	if holds(err, "dial tcp", "i/o timeout", "connection refused", "connection reset", "broken pipe") || NoMaster(err) {
		return Away
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

// Said is the text of an error without what Redis quotes of a command that it does
// not know: its keys and values, and so users and what is theirs.
func Said(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return text
}

// holds reports whether the error's text has one of these.
func holds(err error, these ...string) bool {
	text := Said(err)
	return slices.ContainsFunc(these, func(one string) bool { return strings.Contains(text, one) })
}

// RefusesWrites reports whether the error is a reply that concerns all writes, and not
// only a single key's. That there is no reply is not one.
func RefusesWrites(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.Nil) {
		return false
	}
	if strings.HasPrefix(reply.Error(), "ERR") { // so Redis 6.2 begins what a script was refused
		return holds(reply, "-OOM ", "-MISCONF ", "-NOREPLICAS ", "-READONLY ")
	}
	return !redis.HasErrorPrefix(reply, "WRONGTYPE") && !redis.HasErrorPrefix(reply, "NOSCRIPT")
}

// Answered reports whether the error is Redis's answer to a command.
func Answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// Moving reports whether the error is a Cluster's reply that a command was not run because
// its keys' slot is on its way from one master to another, or has gone there.
func Moving(err error) bool {
	if err == nil {
		return false
	}
	_, ask := redis.IsAskError(err)
	_, moved := redis.IsMovedError(err)
	return ask || moved || redis.IsTryAgainError(err)
}

// OfItsKeys reports whether the error is a reply about the keys of its command alone, which
// are one user's or one notification's: a key is of another type than ours, or holds what
// is no number, at which a script or a command fails. What is not known to be that is not.
func OfItsKeys(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && keyTrouble.MatchString(Said(reply))
}

// Before Redis 7 the words are within those about the script.
var keyTrouble = regexp.MustCompile(`WRONGTYPE ` +
	`|user_script:\s?\d+: (attempt to|bad argument)` +
	`|is not a (valid )?float|not a number \(NaN\)|is not an integer|invalid expire time`)

// OfRedis reports whether the error is Redis's, or about the way there.
func OfRedis(err error) bool {
	var (
		network net.Error // the end of a deadline, too
		reply   redis.Error
	)
	if errors.As(err, &network) || errors.As(err, &reply) || Of(err) != None {
		return true
	}
	for _, one := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, redis.ErrClosed} {
		if errors.Is(err, one) {
			return true
		}
	}
	// what go-redis says of itself has no type
	return holds(err, "redis: ")
}

// Forbidden reports whether Redis does not let the user run a command, or does not have it.
func Forbidden(err error) bool {
	return holds(err, "NOPERM ", "can't run this command", "ERR unknown command")
}

// NoMaster reports whether no Sentinel knows the master.
func NoMaster(err error) bool { return holds(err, "all sentinels") }

// NoCluster reports whether a Redis that was taken for a Cluster's node is none.
func NoCluster(err error) bool { return holds(err, "cluster support disabled") }

// NoDatabase reports whether Redis has no database of the number asked for.
func NoDatabase(err error) bool { return holds(err, "DB index is out of range") }

// NotServed reports whether no node has the slot, as any node answers then. That a node
// says of the Cluster that it is down may be its own view, as after its start.
func NotServed(err error) bool { return holds(err, "Hash slot not served") }
