// Package duration reads durations in people's notation, with days.
package duration

import (
	"errors"
	"strings"
	"time"
)

// Parse reads a duration as time.ParseDuration does, also with leading days: "5d", "1d12h". A day
// has 24 hours. The only error is Err.
func Parse(text string) (time.Duration, error) {
	number, rest, found := strings.Cut(text, "d")
	if !found || strings.Trim(number, "+-.0123456789") != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, Err
		}
		return d, nil
	}
	d, err := time.ParseDuration(number + "h")
	if err != nil {
		return 0, Err
	}
	days := d * 24
	if days/24 != d || strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
		return 0, Err
	}
	if rest == "" {
		return days, nil
	}
	more, err := time.ParseDuration(rest)
	if strings.HasPrefix(number, "-") {
		more = -more
	}
	sum := days + more
	if err != nil || sum-days != more || (sum < days) != (more < 0) {
		return 0, Err
	}
	return sum, nil
}

// Err is the error for text that is not a duration.
var Err = errors.New("want a duration such as 90s, 2h or 5d")
