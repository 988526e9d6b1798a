// Package webhook posts an app's dead tokens and its notifications' outcomes to the app's producer. Start
// with Deliverers. Workers write reports to the app's stream in Redis. The deliverers of all workers
// share a consumer group, so one deliverer posts each report. If it does not acknowledge the report,
// another deliverer takes the report after a minute.
//
// Each report is posted at least once: it is retried until an answer of 2xx, and then acknowledged.
// No error and no log line may contain a secret or a URL.
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

// A Hook receives an app's dead tokens or outcomes, each at least once, as
//
//	{"dead_tokens":[…]}
//	{"outcomes":[…]}
//
// with a signature of Standard Webhooks. A 2xx acknowledges all reports of a request. After
// any other answer, or none within Timeout, they are posted again.
type Hook struct {
	URL  string
	Keys [][]byte // each adds a signature
	// Timeout bounds one request. 0 means 5 s.
	Timeout time.Duration
}

// Times are the durations of a delivery's steps.
type Times struct {
	Poll       time.Duration // interval between reads of an empty stream; 0 means 1 s
	FirstRetry time.Duration // wait before the first retry; 0 means 1 s
	GiveUp     time.Duration // how long one batch is retried; 0 means 40 s
	Claim      time.Duration // age at which a deliverer takes over reports that another has not acknowledged; 0 means 1 min
}

// An Observer receives events for metrics.
type Observer interface {
	// Posted reports a request to an app's webhook, and whether the webhook acknowledged it.
	Posted(app string, kind Kind, taken bool)
}

// Config configures the deliverers. All fields except Proxy and Times are required.
type Config struct {
	// DeadTokens and Outcomes are the hooks by app.
	DeadTokens map[string]Hook
	Outcomes   map[string]Hook
	// Reports and Events are the streams for DeadTokens and Outcomes.
	Reports *store.DeadTokens
	Events  *store.Outcomes
	// Proxy is used for requests; nil for no proxy.
	Proxy    *providers.Proxy
	Observer Observer
	Log      *slog.Logger
	// RedisLog gets errors of Redis.
	RedisLog *slog.Logger
	Times
}

const (
	// maxBatch is the maximum of reports in a request, as docs/webhooks.md says.
	maxBatch = 100
	// maxAnswerSize bounds the bytes read of an answer. After a whole answer its connection can serve
	// the next request.
	maxAnswerSize = 64 << 10
)

// A Kind is a kind of reports.
type Kind string

// The kinds of webhooks.
const (
	DeadTokens Kind = "dead_tokens"
	Outcomes   Kind = "outcomes"
)

// group returns the consumer group of an app's webhook. report.lua must use the same name.
func group(app string) string { return "webhook:" + app }

// Oldest returns the time of the oldest report that an app's webhook of that kind has not
// acknowledged; zero if there is none.
func Oldest(ctx context.Context, records *store.Records, kind Kind, app string) (time.Time, error) {
	if kind == Outcomes {
		return store.NewOutcomes(records).Oldest(ctx, app, group(app))
	}
	return store.NewDeadTokens(records, 0).Oldest(ctx, app, group(app))
}

// Deliverers returns a function for each webhook. Each one delivers until its context ends.
func Deliverers(c Config) (all []func(context.Context)) {
	c.Times = Times{cmp.Or(c.Poll, time.Second), cmp.Or(c.FirstRetry, time.Second), cmp.Or(c.GiveUp, 40*time.Second), cmp.Or(c.Claim, time.Minute)}
	for app, hook := range c.DeadTokens {
		all = append(all, newDeliverer(&c, app, DeadTokens, hook, c.Reports))
	}
	for app, hook := range c.Outcomes {
		all = append(all, newDeliverer(&c, app, Outcomes, hook, c.Events))
	}
	return all
}

// reports reads the streams of one kind.
type reports[T any] interface {
	Next(ctx context.Context, app, group string, left time.Duration, n int) ([]T, error)
	Ack(ctx context.Context, app, group string, reports ...T) error
}

// A deliverer posts one app's reports of one kind.
type deliverer[T any] struct {
	*Config
	app     string
	kind    Kind
	hook    Hook
	reports reports[T]
	client  *http.Client
	failing int // the status of the last logged failure, noAnswer for none; 0 while it works
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
	}
	return d.run
}

// transport returns a transport that uses the proxy where it applies. A webhook is an https URL, or
// is on this machine and reached without the proxy. The transport refuses addresses of metadata services,
// whatever name leads to them; a proxy has to refuse them itself.
func transport(proxy *providers.Proxy) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	dialer := &net.Dialer{Timeout: providers.DialTimeout, KeepAlive: providers.KeepAlive, Control: metadata.Refuse}
	t.Proxy, t.DialContext = nil, proxy.Dialing(dialer.DialContext)
	return t
}

func (d *deliverer[T]) run(ctx context.Context) {
	defer d.client.CloseIdleConnections()
	for ctx.Err() == nil {
		n, err := d.deliverNext(ctx)
		if err != nil && ctx.Err() == nil {
			d.RedisLog.LogAttrs(ctx, slog.LevelWarn, "a webhook's reports wait, as Redis fails", slog.String("app", d.app), slog.String("webhook", string(d.kind)), slog.Any("error", err))
		}
		if err != nil || n == 0 {
			_ = clock.Sleep(ctx, d.Poll)
		}
	}
}

// deliverNext delivers the next reports, and returns their number, or 0 if they are not delivered. It
// must end before another deliverer may take the reports over. An error comes from Redis.
func (d *deliverer[T]) deliverNext(ctx context.Context) (int, error) {
	all, err := d.reports.Next(ctx, d.app, group(d.app), d.Claim+d.hook.Timeout, maxBatch)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	if !d.deliver(ctx, all) {
		return 0, nil
	}
	return len(all), d.reports.Ack(ctx, d.app, group(d.app), all...)
}

// deliver posts the reports until they are acknowledged, and reports false after GiveUp.
func (d *deliverer[T]) deliver(ctx context.Context, reports []T) bool {
	body, err := json.Marshal(map[Kind][]T{d.kind: reports})
	if err != nil {
		d.Log.LogAttrs(ctx, slog.LevelError, "a webhook's reports cannot be encoded as JSON", slog.String("app", d.app), slog.Any("error", err))
		return false
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = d.FirstRetry, 20*d.FirstRetry, 2
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		status, err := d.post(ctx, body)
		d.report(ctx, len(reports), status, err)
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(d.GiveUp))
	return err == nil
}

// report passes a request's result to the Observer. It logs each change of the status: a failure, or the
// first success after one.
func (d *deliverer[T]) report(ctx context.Context, n, status int, err error) {
	if ctx.Err() != nil {
		return
	}
	d.Observer.Posted(d.app, d.kind, err == nil)
	attrs := []slog.Attr{slog.String("app", d.app), slog.String("webhook", string(d.kind)), slog.Int("reports", n)}
	switch {
	case err != nil && d.failing != status:
		d.failing = status
		d.Log.LogAttrs(ctx, slog.LevelWarn, "a webhook fails: its reports are kept and posted again", append(attrs, slog.Any("error", err))...)
	case err == nil && d.failing != 0:
		d.failing = 0
		d.Log.LogAttrs(ctx, slog.LevelInfo, "the webhook works again", attrs...)
	}
}

// noAnswer stands for the status of a request without an answer.
const noAnswer = -1

// post makes one request, and returns the answer's status, or noAnswer. Its error omits the URL,
// which may contain a secret.
func (d *deliverer[T]) post(ctx context.Context, body []byte) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.hook.URL, bytes.NewReader(body))
	if err != nil {
		return noAnswer, errors.New("the webhook's URL is not valid")
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
		return noAnswer, fmt.Errorf("the webhook cannot be reached: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxAnswerSize))
	response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		err = fmt.Errorf("the webhook answered %d, not 2xx", response.StatusCode)
	}
	return response.StatusCode, err
}
