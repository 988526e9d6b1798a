//go:build !unix

package loadtest

import (
	"context"
	"errors"
)

// Run returns an error: the command needs Linux or macOS.
func Run(context.Context, Options) (*Report, error) {
	return nil, errors.New("bench runs on Linux and macOS only")
}
