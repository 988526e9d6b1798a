package operate

import (
	"time"

	"github.com/pushpace/pushpace/internal/base/duration"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// A Draft is an override as entered in a form or in flags: texts to parse ("" and nil if left
// out), and in Override the fields that need no parsing.
type Draft struct {
	limits.Override
	MinGap string   // a duration
	Rates  []string // COUNT/PERIOD each
	Quiet  []string // windows, or quiet.None alone
	For    string   // for how long, a duration
	Until  string   // an instant in RFC 3339
}

// DraftOf writes an override as a draft.
func DraftOf(o limits.Override) Draft {
	d := Draft{Override: o}
	if o.Policy.MinGap > 0 {
		d.MinGap = throttle.FormatPeriod(o.Policy.MinGap)
	}
	for _, r := range o.Policy.Rates {
		d.Rates = append(d.Rates, r.String())
	}
	if o.Policy.Quiet != nil && len(o.Policy.Quiet) == 0 {
		d.Quiet = []string{quiet.None}
	}
	for _, w := range o.Policy.Quiet {
		d.Quiet = append(d.Quiet, w.String())
	}
	if !o.Until.IsZero() {
		d.Until = o.Until.UTC().Format(time.RFC3339)
	}
	return d
}

// Read parses the draft into an override of the level. Its error is of type throttle.Faults, with
// the fields of limits.Override.Validate and "for". SetLimit validates the override.
func (d Draft) Read(at limits.Level, now time.Time) (limits.Override, error) {
	o := d.Override
	o.Level, o.Policy = at, throttle.Policy{Exempt: o.Policy.Exempt}
	var wrong throttle.Faults
	fault := func(field string, err error) {
		if err != nil {
			wrong.Add(field, "%v", err)
		}
	}
	var err error
	if d.MinGap != "" {
		o.Policy.MinGap, err = duration.Parse(d.MinGap)
		fault("min_gap", err)
	}
	for _, text := range d.Rates {
		rate, err := throttle.ParseRate(text)
		fault("rates", err)
		o.Policy.Rates = append(o.Policy.Rates, rate)
	}
	if d.Quiet != nil {
		o.Policy.Quiet, err = quiet.ParseHours(d.Quiet)
		fault("quiet_hours", err)
	}
	var ends throttle.Faults
	o.Until, ends = Ending(d.For, d.Until, now)
	return o, append(wrong, ends...).Err()
}

// Ending parses an end, given as a duration from now or as an instant in RFC 3339; without either
// it returns the zero time. The faults' fields are "for" and "until".
func Ending(length, until string, now time.Time) (end time.Time, wrong throttle.Faults) {
	switch {
	case length != "" && until != "":
		wrong.Add("until", "give a length or an instant, not both")
	case length != "":
		d, err := duration.Parse(length)
		if err != nil || d <= 0 {
			wrong.Add("for", "want a positive duration such as 2h")
		}
		end = now.Add(d)
	case until != "":
		var err error
		if end, err = time.Parse(time.RFC3339, until); err != nil || end.IsZero() {
			wrong.Add("until", "want an instant as in 2026-12-24T20:00:00Z")
		}
	}
	return end, wrong
}
