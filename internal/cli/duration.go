package cli

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pushpace/pushpace/internal/base/duration"
)

// A durationFlag is a duration, which may be in days.
type durationFlag time.Duration

// durationVar adds a flag of a duration; 0 by default.
func durationVar(f *pflag.FlagSet, into *time.Duration, name, usage string) {
	f.Var((*durationFlag)(into), name, usage)
}

// String is the flag's default, none.
func (d *durationFlag) String() string { return "" }

// Type is what pflag calls the value.
func (d *durationFlag) Type() string { return "duration" }

// Set takes the flag's value.
func (d *durationFlag) Set(text string) error {
	v, err := duration.Parse(text)
	if err != nil {
		return err
	}
	*d = durationFlag(v)
	return nil
}
