package throttle

import (
	"errors"
	"fmt"
	"regexp"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
)

// StoreError is the error of a call that failed. Whatever a store answers is its
// own trouble, and concerns every user, unless it is about what is kept of one.
func StoreError(op string, err error) error {
	var reply redis.Error
	if errors.As(err, &reply) && ofOneUser(pipeline.Said(reply)) {
		return fmt.Errorf("throttle: %s: Redis answered: %w", op, said{err})
	}
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, op, said{err})
}

// said is an error that names no user: logs have it, and whoever asks a probe.
type said struct{ error }

// Error implements error.
func (s said) Error() string { return pipeline.Said(s.error) }

// Unwrap answers the error as it is.
func (s said) Unwrap() error { return s.error }

// ofOneUser reports whether an error reply is about a user's keys: one is of
// another type than ours, or holds a score that is no instant, at which a script
// or a command fails. What is not known to be that is not.
func ofOneUser(reply string) bool { return userTrouble.MatchString(reply) }

// Before Redis 7 the words are within those about the script.
var userTrouble = regexp.MustCompile(`WRONGTYPE ` +
	`|user_script:\s?\d+: (attempt to|bad argument)` +
	`|is not a (valid )?float|not a number \(NaN\)|is not an integer or out of range|invalid expire time`)
