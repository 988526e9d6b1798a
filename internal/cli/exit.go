package cli

import (
	"errors"
	"fmt"
	"os"

	"github.com/pushpace/pushpace/internal/app"
)

// The exit statuses.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2 // wrong use or configuration
	exitViolated = 3 // accounting or limits violated
)

// An exitError is an error with an exit status. Every other error of a command means exitFailed.
type exitError struct {
	status int
	err    error // nil if the command has printed everything
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// misused marks an error as wrong use or a wrong configuration; nil for nil.
func misused(err error) error { return app.Misused(err) }

func misusedf(format string, args ...any) error { return app.Misusedf(format, args...) }

// exitSilently exits with the status and prints nothing.
func exitSilently(status int) error { return &exitError{status: status} }

func warnUser(text string) { fmt.Fprintln(os.Stderr, "pushpace: warning: "+text) }

// report prints the error to standard error, and returns the exit status.
func report(err error) int {
	if err == nil {
		return exitDone
	}
	status := exitFailed
	var exit *exitError
	switch {
	case errors.As(err, &exit):
		status = exit.status
	case errors.As(err, new(*app.UsageError)):
		status = exitUsage
	}
	if text := err.Error(); text != "" {
		fmt.Fprintln(os.Stderr, "pushpace: "+text)
	}
	return status
}
