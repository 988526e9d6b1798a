package app

import "fmt"

// A UsageError is wrong use of the program, or a wrong configuration.
type UsageError struct{ Err error }

// Error implements error.
func (e *UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UsageError) Unwrap() error { return e.Err }

// Misused returns the error as a UsageError; nil for nil.
func Misused(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}

// Misusedf formats a UsageError.
func Misusedf(format string, args ...any) error { return Misused(fmt.Errorf(format, args...)) }
