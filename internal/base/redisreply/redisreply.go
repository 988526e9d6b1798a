// Package redisreply classifies the errors of Redis and its clients. Most of these errors differ
// only in their texts, which no other package reads. Start with Of.
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

// A Trouble is an error state of a Redis as a whole, whatever the command. The set is closed, so
// that a Trouble can label a metric.
type Trouble string

const (
	None       Trouble = ""
	Away       Trouble = "away"        // it cannot be reached, or does not answer
	Refused    Trouble = "refused"     // it refuses our credentials
	Crowded    Trouble = "crowded"     // it takes no more clients
	Full       Trouble = "full"        // its memory is full
	ReadOnly   Trouble = "read_only"   // it is a replica
	NoReplicas Trouble = "no_replicas" // it has fewer replicas than it requires for a write
	NotSaved   Trouble = "not_saved"   // it cannot save to disk, and takes no writes
	Starting   Trouble = "starting"    // it loads its keys
	Busy       Trouble = "busy"        // it runs one script
	Broken     Trouble = "broken"      // its Cluster is down
)

var Troubles = []Trouble{Away, Refused, Crowded, Full, ReadOnly, NoReplicas, NotSaved, Starting, Busy, Broken}

// troubles are parts of the replies of a Redis in an error state. Some replies are only a text after
// the word ERR.
var troubles = []struct {
	says    string
	trouble Trouble
}{
	{"NOAUTH ", Refused}, {"WRONGPASS ", Refused}, {"without any password configured", Refused}, {"ERR invalid password", Refused},
	{"unauthenticated ", Refused}, // the reply to commands with many or long arguments
	{"max number of clients", Crowded},
	{"OOM ", Full},
	{"READONLY ", ReadOnly},
	{"NOREPLICAS ", NoReplicas},
	{"MISCONF ", NotSaved},
	{"LOADING ", Starting}, {"MASTERDOWN ", Starting},
	{"BUSY ", Busy},
	{"CLUSTERDOWN ", Broken}, {"redis: cluster has no nodes", Broken},
}

// Of returns the error state that a command's error reports; None if the error concerns only the
// command. It reads the error's text, because a script's error has nothing else.
func Of(err error) Trouble {
	if err == nil || errors.Is(err, redis.Nil) || errors.Is(err, context.Canceled) {
		return None
	}
	text := TextOf(err)
	for _, reply := range troubles {
		if strings.Contains(text, reply.says) {
			return reply.trouble
		}
	}
	var network net.Error // also an expired deadline
	if errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, redis.ErrPoolTimeout) {
		return Away
	}
	if contains(err, "dial tcp", "i/o timeout", "connection refused", "connection reset", "broken pipe") || NoMaster(err) {
		return Away
	}
	return None
}

// Text describes the state in a few words that follow "Redis".
func (t Trouble) Text() string {
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
		return "cannot save to its disk (MISCONF)"
	case Starting:
		return "is starting (LOADING)"
	case Busy:
		return "is busy with a script (BUSY)"
	case Broken:
		return "is a Cluster that is down (CLUSTERDOWN)"
	}
	return "does not answer"
}

// TextOf returns an error's text without the arguments that Redis quotes from an unknown command,
// which may contain users' names and data.
func TextOf(err error) string {
	text, _, _ := strings.Cut(err.Error(), ", with args beginning with")
	return text
}

// contains reports whether the error's text contains any of these.
func contains(err error, these ...string) bool {
	text := TextOf(err)
	return slices.ContainsFunc(these, func(one string) bool { return strings.Contains(text, one) })
}

// RefusesWrites reports whether the error is a reply that concerns all writes, not just one key's.
// A missing reply does not count.
func RefusesWrites(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) || errors.Is(err, redis.Nil) {
		return false
	}
	if strings.HasPrefix(reply.Error(), "ERR") { // Redis 6.2's prefix for a script's refused write
		return contains(reply, "-OOM ", "-MISCONF ", "-NOREPLICAS ", "-READONLY ")
	}
	return !redis.HasErrorPrefix(reply, "WRONGTYPE") && !redis.HasErrorPrefix(reply, "NOSCRIPT")
}

// Answered reports whether the error is Redis's answer to a command.
func Answered(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// IsMoving reports whether the error is a Cluster's reply that a command was not run because its hash
// slot is migrating to another master, or has moved.
func IsMoving(err error) bool {
	if err == nil {
		return false
	}
	_, ask := redis.IsAskError(err)
	_, moved := redis.IsMovedError(err)
	return ask || moved || redis.IsTryAgainError(err)
}

// OfItsKeys reports whether the error is a reply about the command's own keys, which belong to one
// user or notification: a key of a wrong type, or a value that is not a number. In doubt it returns
// false.
func OfItsKeys(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && keyTrouble.MatchString(TextOf(reply))
}

// Before Redis 7 the message is part of the script error's text.
var keyTrouble = regexp.MustCompile(`WRONGTYPE ` +
	`|user_script:\s?\d+: (attempt to|bad argument)` +
	`|is not a (valid )?float|not a number \(NaN\)|is not an integer|invalid expire time`)

// OfRedis reports whether the error is from Redis or from the connection to it.
func OfRedis(err error) bool {
	var (
		network net.Error // also an expired deadline
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
	// go-redis's own errors have no type
	return contains(err, "redis: ")
}

// Forbidden reports whether Redis does not allow the user a command, or does not have it.
func Forbidden(err error) bool {
	return contains(err, "NOPERM ", "can't run this command", "ERR unknown command")
}

// NoMaster reports whether no Sentinel knows the master.
func NoMaster(err error) bool { return contains(err, "all sentinels") }

// NoCluster reports whether the Redis is not a Cluster's node.
func NoCluster(err error) bool { return contains(err, "cluster support disabled") }

// NoDatabase reports whether Redis has no database of the requested number.
func NoDatabase(err error) bool { return contains(err, "DB index is out of range") }

// NotServed reports whether no node has the hash slot, as every node then replies. CLUSTERDOWN
// alone may be one node's view, for example after its start.
func NotServed(err error) bool { return contains(err, "Hash slot not served") }
