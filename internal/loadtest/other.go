//go:build !unix

package loadtest

import (
	"context"
	"errors"
)

// Run is for Linux and macOS.
func Run(context.Context, Options) (*Report, error) {
	return nil, errors.New("bench runs on Linux and macOS")
}
