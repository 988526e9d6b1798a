// Package webhook posts what an app's producer wants to know: which of its tokens are
// dead, and how its notifications end. Workers write reports to the app's stream in Redis.
// The deliverers of all workers share a consumer group, so that one of them posts each
// report. If it does not acknowledge a report, another deliverer takes it after a minute.
//
// A report is acknowledged when the webhook has answered 2xx, and posted again until
// then: at least once each. Neither a secret nor a URL is in an error or the log.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/pushpace/pushpace/internal/base/metadata"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/worker/clock"
)

// A Hook is where an app's dead tokens, or its outcome events, are posted, at
// least once each, as
//
//	{"dead_tokens":[…]}
//	{"outcomes":[…]}
//
// signed as Standard Webhooks are. A 2xx acknowledges them all; anything else, and no
// answer within the time-out, has them posted again.
type Hook struct {
	URL  string
	Keys [][]byte // each makes a signature of its own
	// Timeout bounds one request. 0 means 5 s.
	Timeout time.Duration
}

// Times are how long a delivery's steps take.
type Times struct {
	Poll  time.Duration // between two looks at the stream; 0 for 1 s
	Again time.Duration // before the second try; 0 for 1 s
	Give  time.Duration // up what was tried for so long; 0 for 40 s
	Claim time.Duration // what another deliverer has left for so long; 0 for a minute
}

// An Observer is told of each request, for metrics.
type Observer interface {
	// Posted: an app's webhook was posted to, and has taken it or not.
	Posted(app string, kind Kind, taken bool)
}

// Config says what is posted, and where. All but the times is required.
type Config struct {
	// Hooks are where, by app, for each kind that is told of.
	DeadTokens map[string]Hook
	Outcomes   map[string]Hook
	// Reports are what is told of dead tokens, and Events of outcomes.
	Reports *store.DeadTokens
	Events  *store.Outcomes
	// Proxy is the way to them; nil for none.
	Proxy    *providers.Proxy
	Observer Observer
	Log      *slog.Logger
	// RedisLog is told what fails for want of Redis.
	RedisLog *slog.Logger
	Times
}

const (
	// batch is how many reports a request carries at most, as docs/webhooks.md says.
	batch = 100
	// answerMost bounds, in bytes, how much of an answer is read so that its connection can serve
	// the next request.
	answerMost = 64 << 10
)

// A Kind is what a webhook is told of, from a closed set.
type Kind string

// The kinds of webhooks.
const (
	DeadTokens Kind = "dead_tokens"
	Outcomes   Kind = "outcomes"
)

// group is the consumer group of an app's webhook in its stream; report.lua knows it too.
func group(app string) string { return "webhook:" + app }

// Oldest returns when the first report was made that an app's webhook of that kind has not
// taken; zero when there is none.
func Oldest(ctx context.Context, records *store.Records, kind Kind, app string) (time.Time, error) {
	if kind == Outcomes {
		return store.NewOutcomes(records).Oldest(ctx, app, group(app))
	}
	return store.NewDeadTokens(records, 0).Oldest(ctx, app, group(app))
}

// Deliverers returns what delivers, one for each webhook: each runs until its context
// ends.
func Deliverers(c Config) (all []func(context.Context)) {
	c.Times = Times{cmp.Or(c.Poll, time.Second), cmp.Or(c.Again, time.Second), cmp.Or(c.Give, 40*time.Second), cmp.Or(c.Claim, time.Minute)}
	for app, hook := range c.DeadTokens {
		all = append(all, newDeliverer(&c, app, DeadTokens, hook, c.Reports))
	}
	for app, hook := range c.Outcomes {
		all = append(all, newDeliverer(&c, app, Outcomes, hook, c.Events))
	}
	return all
}

// reports are the streams of the reports of one kind.
type reports[T any] interface {
	Next(ctx context.Context, app, group string, left time.Duration, n int) ([]T, error)
	Ack(ctx context.Context, app, group string, reports ...T) error
}

// A deliverer posts one app's reports. Those of all workers share a group of the
// stream; what one leaves unacknowledged, another takes up.
type deliverer[T any] struct {
	*Config
	app     string
	kind    Kind
	hook    Hook
	reports reports[T]
	client  *http.Client
	trouble clock.Trouble // of its requests
}

func newDeliverer[T any](c *Config, app string, kind Kind, hook Hook, from reports[T]) func(context.Context) {
	hook.Timeout = cmp.Or(hook.Timeout, 5*time.Second)
	d := &deliverer[T]{
		Config: c, app: app, kind: kind, hook: hook, reports: from,
		client: &http.Client{
			Timeout:       hook.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     transport(c.Proxy),
		},
		trouble: clock.Trouble{Log: c.Log, Begins: "a webhook fails: what it is to be told is kept and posted again", Ends: "the webhook works again"},
	}
	return d.run
}

// transport goes by way of the proxy where that applies. A webhook is at this machine, which
// is none, or an https URL. It connects to no metadata service, whatever address a webhook's
// name has; through a proxy that is for the proxy to refuse.
func transport(proxy *providers.Proxy) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	dialer := &net.Dialer{Timeout: providers.DialTimeout, KeepAlive: providers.KeepAlive, Control: metadata.Refuse}
	t.Proxy, t.DialContext = nil, proxy.Dialing(dialer.DialContext)
	return t
}

func (d *deliverer[T]) run(ctx context.Context) {
	defer d.client.CloseIdleConnections()
	for ctx.Err() == nil {
		n, err := d.round(ctx)
		if err != nil && ctx.Err() == nil {
			d.RedisLog.LogAttrs(ctx, slog.LevelWarn, "what a webhook is to be told waits", slog.String("app", d.app), slog.String("webhook", string(d.kind)), slog.Any("error", err))
		}
		if err != nil || n == 0 {
			_ = clock.Sleep(ctx, d.Poll)
		}
	}
}

// round delivers the next reports, and returns how many there were, none when they
// are not delivered. It must be over before another deliverer takes them up. Its
// error is Redis's.
func (d *deliverer[T]) round(ctx context.Context) (int, error) {
	all, err := d.reports.Next(ctx, d.app, group(d.app), d.Claim+d.hook.Timeout, batch)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	if !d.deliver(ctx, all) {
		return 0, nil
	}
	return len(all), d.reports.Ack(ctx, d.app, group(d.app), all...)
}

// deliver posts until it is acknowledged, or has been tried for long enough.
func (d *deliverer[T]) deliver(ctx context.Context, reports []T) bool {
	body, err := json.Marshal(map[Kind][]T{d.kind: reports})
	if err != nil {
		d.Log.LogAttrs(ctx, slog.LevelError, "what a webhook is to be told has no JSON form", slog.String("app", d.app), slog.Any("error", err))
		return false
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = d.Again, 20*d.Again, 2
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := d.post(ctx, body)
		d.tell(ctx, len(reports), err)
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(d.Give))
	return err == nil
}

// tell tells of a request: in the log, of the first that fails and of the next that
// does not.
func (d *deliverer[T]) tell(ctx context.Context, n int, err error) {
	if ctx.Err() == nil {
		d.Observer.Posted(d.app, d.kind, err == nil)
		d.trouble.Failing(ctx, err, slog.String("app", d.app), slog.String("webhook", string(d.kind)), slog.Int("reports", n))
	}
}

// post makes one request. The error leaves out the URL, which may hold a secret.
func (d *deliverer[T]) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.hook.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the webhook's URL is not valid")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pushpace")
	sign(request.Header, d.hook.Keys, body, time.Now())
	response, err := d.client.Do(request)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf("the webhook cannot be reached: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, answerMost))
	response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the webhook answers %d, want 2xx", response.StatusCode)
	}
	return nil
}
