package words

import (
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// nightsTold is how many of the next quiet hours are told.
const nightsTold = 2

// Nights says when the next quiet hours of the policy are, by the clocks of limits.time_zone
// too. Those of one user in an app end at the instant that is the user's own; of others it says
// by how much later they may end.
func Nights(p throttle.Policy, app, user string, now time.Time) (all []Sentence) {
	if len(p.Quiet) == 0 {
		return nil
	}
	in, night, later := p.Night.Zone, p.Night, ""
	if in == nil {
		in = time.UTC
	}
	if app == "" || user == "" {
		if night.Spread > 0 {
			later = ", each user's up to " + throttle.FormatPeriod(night.Spread) + " later"
		}
		night.Spread = 0
	}
	for _, i := range p.Quiet.Ahead(in, night, app, user, now.Unix()) {
		if i.Upto <= now.Unix() {
			continue
		}
		from, upto := time.Unix(i.From, 0).In(in), time.Unix(i.Upto, 0).In(in)
		const layout = "Mon 2006-01-02 15:04:05"
		all = append(all, Say("quiet from ", from.Format(layout), " to ", upto.Format(layout), " in ", in.String(), " (", from, " to ", upto, ")", later))
		if len(all) == nightsTold {
			break
		}
	}
	return all
}
