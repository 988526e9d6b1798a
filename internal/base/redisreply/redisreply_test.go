package redisreply

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestErrorsMapToTroubles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Trouble{
		"NOAUTH Authentication required.":                                                                    Refused,
		"list the pauses: WRONGPASS invalid username-password pair or user is disabled.":                     Refused,
		"UNKNOWN: redis eval error: dial tcp 127.0.0.1:1: connect: connection refused":                       Away,
		"enqueue: INTERNAL_ERROR: redis eval error: OOM command not allowed when used memory > 'maxmemory'.": Full,
		"ERR Protocol error: unauthenticated multibulk length":                                               Refused,
		"READONLY You can't write against a read only replica.":                                              ReadOnly,
		"NOREPLICAS Not enough good replicas to write.":                                                      NoReplicas,
		"MISCONF Redis is configured to save RDB snapshots":                                                  NotSaved,
		"LOADING Redis is loading the dataset in memory":                                                     Starting,
		"BUSY Redis is busy running a script.":                                                               Busy,
		"ERR unknown command 'zadd', with args beginning with: 'OOM '":                                       None,
		"CLUSTERDOWN The cluster is down":                                                                    Broken,
		"ERR max number of clients reached":                                                                  Crowded,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                  None,
		"NOPERM this user has no permissions to run the 'get' command":                                       None,
		"NOSCRIPT No matching script.":                                                                       None,
	} {
		if got := Of(redisError(text)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	for _, err := range []error{nil, redis.Nil, context.Canceled} {
		if got := Of(err); got != None {
			t.Errorf("%v: %q", err, got)
		}
	}
	for _, trouble := range Troubles[1:] {
		if trouble.Text() == Away.Text() {
			t.Errorf("%s has no words", trouble)
		}
	}
}

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

func TestReplyConcernsKeysOrRedis(t *testing.T) {
	t.Parallel()
	for reply, oneUser := range map[string]bool{
		"WRONGTYPE Operation against a key holding the wrong kind of value":                                                              true,
		"WRONGTYPE Operation against a key holding the wrong kind of value script: bcb6, on @user_script:1.":                             true,
		"ERR Error running script (call to f_bcb6): @user_script:1: WRONGTYPE Operation against a key holding the wrong kind of value":   true,
		"ERR value is not a valid float script: ad5f, on @user_script:1.":                                                                true,
		"ERR min or max is not a float script: ad5f, on @user_script:1.":                                                                 true,
		"ERR value is not an integer or out of range script: ad5f, on @user_script:1.":                                                   true,
		"ERR user_script:1: attempt to compare nil with number script: dbad, on @user_script:1.":                                         true,
		"ERR user_script:1: bad argument #2 to 'format' (number expected, got nil) script: 006b, on @user_script:1.":                     true,
		"ERR Error running script (call to f_006b): @user_script:1: user_script:1: attempt to perform arithmetic on a nil value":         true,
		"NOPERM this user has no permissions to run the 'zadd' command":                                                                  false,
		"ERR The user executing the script can't run this command or subcommand script: bcb6, on @user_script:1.":                        false,
		"ERR The user executing the script can't access at least one of the keys mentioned in the command arguments script: 51b6, on @u": false,
		"NOREPLICAS Not enough good replicas to write. script: bcb6, on @user_script:1.":                                                 false,
		"OOM command not allowed when used memory > 'maxmemory'. script: bcb6, on @user_script:1.":                                       false,
		"MISCONF Redis is configured to save RDB snapshots":                                                                              false,
		"READONLY You can't write against a read only replica.":                                                                          false,
		"ERR unknown command 'zadd', with args beginning with: ":                                                                         false,
		"ERR Unknown Redis command called from script script: e168, on @user_script:1.":                                                  false,
		"ERR Script attempted to access a non local key in a cluster node script: e1, on @user_script:1":                                 false,
		"ANYTHING that a later Redis may answer":                                                                                         false,
	} {
		if got := OfItsKeys(redisError(reply)); got != oneUser {
			t.Errorf("%q: one user's trouble: %v, want %v", reply, got, oneUser)
		}
	}
}

// A reply concerns all writes unless it is about one key, one job or a script.
func TestRefusesWrites(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"OOM command not allowed when used memory > 'maxmemory'.":                          true,
		"READONLY You can't write against a read only replica.":                            true,
		"NOPERM this user has no permissions to run the 'evalsha' command":                 true,
		"ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed": true,
		"ERR value is not an integer or out of range":                                      false,
		"WRONGTYPE Operation against a key holding the wrong kind of value":                false,
		"NOSCRIPT No matching script.":                                                     false,
	} {
		if got := RefusesWrites(fmt.Errorf("settle: %w", redisError(text))); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for _, err := range []error{nil, redis.Nil, errors.New("OOM of no reply")} {
		if RefusesWrites(err) {
			t.Errorf("%v refuses writes", err)
		}
	}
}

// Forbidden and unknown commands are not error states.
func TestForbiddenCommandIsNoTrouble(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"NOREPLICAS too few replicas have acknowledged the write: NOPERM this user has no permissions to run the 'wait' command": true,
		"ERR The user executing the script can't run this command or subcommand script: f_1":                                     true,
		"ERR unknown command 'WAIT', with args beginning with: '1' '1000'":                                                       true,
		"NOREPLICAS too few replicas have acknowledged the write: 0 of 1":                                                        false,
		"ERR no such key, with args beginning with: 'NOPERM '":                                                                   false,
	} {
		if got := Forbidden(fmt.Errorf("settle: %w", redisError(text))); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
