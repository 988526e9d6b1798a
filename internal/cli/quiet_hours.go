package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/quiet"
)

// printNights prints the policy's next quiet hours.
func printNights(out io.Writer, p throttle.Policy, app, user string) error {
	for _, night := range words.Nights(p, app, user, time.Now()) {
		if _, err := fmt.Fprintln(out, night); err != nil {
			return err
		}
	}
	return nil
}

// week returns one line for each policy with quiet hours: its quiet hours of the next seven days,
// in limits.time_zone.
func week(l config.Limits, now time.Time) []string {
	night := l.General().Night
	line := func(of string, p throttle.Policy) (lines []string) {
		if len(p.Quiet) == 0 {
			return nil
		}
		var nights []string
		for _, i := range p.Quiet.Ahead(night.Zone, quiet.Night{Zone: night.Zone}, "", "", now.Unix()) {
			if from := time.Unix(i.From, 0); i.Upto > now.Unix() && from.Before(now.AddDate(0, 0, 7)) {
				nights = append(nights, from.In(night.Zone).Format("Mon 15:04")+" to "+time.Unix(i.Upto, 0).In(night.Zone).Format("Mon 15:04"))
			}
		}
		return []string{of + " " + strings.Join(nights, ", ")}
	}
	all := line("default", l.Default)
	for _, name := range slices.Sorted(maps.Keys(l.Categories)) {
		all = append(all, line(words.Quoted(name), l.Categories[name].Policy)...)
	}
	if len(all) > 0 && night.Spread > 0 {
		all = append(all, "each user's end up to "+throttle.FormatPeriod(night.Spread)+" later")
	}
	return all
}
