package push

import (
	"errors"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/suggest"
)

// WithApps returns a producer that takes notifications of these apps alone, which are
// named as in the configuration. One of another app is refused by an error of type Faults
// in the words of the API. A Producer without it takes an app of any name: where the
// workers do not have it, the notification ends as a dead letter (unknown_app).
func (p *Producer) WithApps(names ...string) *Producer {
	own := *p
	own.apps = append([]string{}, names...)
	slices.Sort(own.apps)
	return &own
}

// complete is complete for a notification of one of the Producer's apps, and refuses
// others.
func (p *Producer) complete(n *Notification, now time.Time) (Notification, error) {
	accepted, err := complete(n.InTimeZone(p.zone), now)
	if n != nil {
		accepted.TimeZone = n.TimeZone // its job holds no other
	}
	if p.apps == nil || n == nil || n.App == "" || slices.Contains(p.apps, n.App) {
		return accepted, err
	}
	all := fielderrors.New("/app", "%s", suggest.UnknownApp(n.App, p.apps))
	var others Faults
	if errors.As(err, &others) {
		all = append(all, others...)
	}
	return accepted, all
}
