package violations

import (
	"cmp"
	"time"

	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// inQuietHours returns how much too early the push was if it came in the quiet hours, in its user's
// zone, of all policies that may have been in force. It ignores the spread, which may delay the end
// of a user's quiet hours.
func inQuietHours(p Push, policies InForce) (mildest Violation) {
	if p.Passes {
		return mildest
	}
	type held struct {
		scope  string
		policy throttle.Policy
	}
	var may []held
	for _, own := range policies.Category {
		if own.Quiet != nil {
			may = append(may, held{p.Category, own})
		}
	}
	if len(may) < len(policies.Category) || len(may) == 0 {
		for _, general := range policies.General {
			may = append(may, held{throttle.General, general})
		}
	}
	for i, by := range may {
		v := Violation{p.App, p.User, by.scope, throttle.QuietRule, p.At, leftQuiet(by.policy.Quiet, cmp.Or(p.Zone, by.policy.Night.Zone, time.UTC), p.At)}
		if i == 0 || v.Early < mildest.Early {
			mildest = v
		}
	}
	return mildest
}

// leftQuiet returns how long from an instant on the zone's clock shows a quiet time, if it does not
// jump meanwhile; 0 if the time at the instant is not quiet.
func leftQuiet(hours quiet.Hours, zone *time.Location, at time.Time) (left time.Duration) {
	const day = 24 * time.Hour
	shown := at.In(zone)
	since := time.Duration(shown.Hour())*time.Hour + time.Duration(shown.Minute())*time.Minute + time.Duration(shown.Second())*time.Second + time.Duration(shown.Nanosecond())
	for _, w := range hours {
		from, upto := time.Duration(w.From)*time.Minute, time.Duration(w.Upto)*time.Minute
		if upto <= from {
			upto += day
		}
		for before := range 2 { // the window began today or yesterday
			of := since + time.Duration(before)*day
			if w.Days.Has(shown.AddDate(0, 0, -before).Weekday()) && from <= of && of < upto {
				left = max(left, upto-of)
			}
		}
	}
	return left
}
