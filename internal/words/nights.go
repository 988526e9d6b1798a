package words

import (
	"time"

	"github.com/pushpace/pushpace/throttle"
)

// nightsShown is the number of quiet hours that Nights describes.
const nightsShown = 2

// Nights describes the policy's next quiet hours, in limits.time_zone. For one user in an app it
// gives the user's own end; otherwise it adds how much later quiet hours may end.
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
		if in.String() == "UTC" {
			all = append(all, Say("quiet from ", from, " to ", upto, later))
		} else {
			all = append(all, Say("quiet from ", from.Format(layout), " to ", upto.Format(layout), " in ", in.String(), " (", from, " to ", upto, ")", later))
		}
		if len(all) == nightsShown {
			break
		}
	}
	return all
}
