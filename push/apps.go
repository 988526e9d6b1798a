package push

import (
	"errors"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/fielderrors"
	"github.com/pushpace/pushpace/internal/base/suggest"
)

// WithApps returns a producer that accepts only notifications of these apps, named as in the
// configuration. For a different app the error is of type Faults, with the text of the API. A Producer
// without WithApps accepts every app: if the workers do not have the app, the notification ends as a dead
// letter (unknown_app).
func (p *Producer) WithApps(names ...string) *Producer {
	own := *p
	own.apps = append([]string{}, names...)
	slices.Sort(own.apps)
	return &own
}

// complete is the function complete, but refuses notifications of apps that are not the Producer's.
func (p *Producer) complete(n *Notification, now time.Time) (Notification, error) {
	accepted, err := complete(n.InTimeZone(p.zone), now)
	if n != nil {
		accepted.TimeZone = n.TimeZone // the Producer's zone is not stored
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
