package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pushpace/pushpace/internal/base/duration"
)

// A durationFlag is a duration flag that also takes days.
type durationFlag time.Duration

// durationVar adds a durationFlag; 0 by default.
func durationVar(f *pflag.FlagSet, into *time.Duration, name, usage string) {
	f.Var((*durationFlag)(into), name, usage)
}

// String returns the default value: none.
func (d *durationFlag) String() string { return "" }

// Type returns pflag's name for the value.
func (d *durationFlag) Type() string { return "duration" }

func (d *durationFlag) Set(text string) error {
	v, err := duration.Parse(text)
	if err != nil {
		return err
	}
	*d = durationFlag(v)
	return nil
}
