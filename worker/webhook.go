package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// A Webhook is where an app's dead tokens, or its outcome events, are posted, at
// least once each, as
//
//	{"dead_tokens":[…]}
//	{"outcomes":[…]}
//
// with push.SignatureHeader. A 2xx acknowledges them all; anything else, and no
// answer within the time-out, has them posted again.
type Webhook struct {
	URL    string
	Secret []byte // of the signature
	// Timeout bounds one request. 0 means 5 s.
	Timeout time.Duration
}

// webhookTimes are how long a delivery's steps take.
type webhookTimes struct {
	poll  time.Duration // between two looks at the stream
	again time.Duration // before the second try
	give  time.Duration // up what was tried for so long
	claim time.Duration // what another deliverer has left for so long
}

func (t *webhookTimes) setDefaults() {
	orDefault(&t.poll, time.Second)
	orDefault(&t.again, time.Second)
	orDefault(&t.give, 40*time.Second)
	orDefault(&t.claim, time.Minute)
}

const (
	// webhookBatch is how many reports a request carries at most.
	webhookBatch = 100
	// webhookAnswer bounds what is read of an answer, in bytes.
	webhookAnswer = 64 << 10
)

// A WebhookKind is what a webhook is told of, from a closed set.
type WebhookKind string

// The kinds of webhooks.
const (
	DeadTokenHook WebhookKind = "dead_tokens"
	OutcomeHook   WebhookKind = "outcomes"
)

// group is the consumer group of an app's webhook in the stream of its kind.
func group(app string) string { return "webhook:" + app }

// WebhookOldest answers when the first of the reports was made that an app's webhook
// of that kind was posted and has not acknowledged; zero when there is none.
func WebhookOldest(ctx context.Context, client redis.UniversalClient, prefix string, kind WebhookKind, app string) (time.Time, error) {
	if kind == OutcomeHook {
		return push.NewOutcomes(client, prefix).Oldest(ctx, group(app))
	}
	return push.NewDeadTokens(client, prefix, 0).Oldest(ctx, group(app))
}

// startWebhooks starts a deliverer for each webhook.
func (h *handler) startWebhooks() {
	outcomes := push.NewOutcomes(h.Queue, h.Prefix)
	for app, hook := range h.Webhooks {
		startDeliverer(h, app, DeadTokenHook, hook, h.deadTokens, func(t push.DeadToken) string { return t.App })
	}
	for app, hook := range h.OutcomeWebhooks {
		startDeliverer(h, app, OutcomeHook, hook, outcomes, func(e push.OutcomeEvent) string { return e.App })
	}
}

// reports are a stream of what webhooks are told.
type reports[T any] interface {
	Next(ctx context.Context, group string, left time.Duration, n int) ([]T, error)
	Ack(ctx context.Context, group string, reports ...T) error
}

// A deliverer posts one app's reports. Those of all workers share a group of the
// stream; what one leaves unacknowledged, another takes up.
type deliverer[T any] struct {
	app     string
	kind    WebhookKind
	hook    Webhook
	reports reports[T]
	appOf   func(T) string
	times   webhookTimes
	client  *http.Client
	log     *slog.Logger
	seen    Observer
	failing bool // since its last request
}

func startDeliverer[T any](h *handler, app string, kind WebhookKind, hook Webhook, from reports[T], appOf func(T) string) {
	orDefault(&hook.Timeout, 5*time.Second)
	d := &deliverer[T]{
		app: app, kind: kind, hook: hook, reports: from, appOf: appOf, times: h.times.webhook, log: h.Log, seen: h.Observer,
		client: &http.Client{
			Timeout:       hook.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		},
	}
	h.side.Go(func() { d.run(h.stopping, h.RedisLog) })
}

func (d *deliverer[T]) run(ctx context.Context, redisLog *slog.Logger) {
	defer d.client.CloseIdleConnections()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		n, err := d.round(ctx)
		if err != nil && ctx.Err() == nil {
			redisLog.LogAttrs(ctx, slog.LevelWarn, "what a webhook is to be told waits", slog.String("app", d.app), slog.String("webhook", string(d.kind)), slog.Any("error", err))
		}
		wait := d.times.poll
		if err == nil && n > 0 {
			wait = 0
		}
		timer.Reset(wait)
	}
}

// round delivers the next reports, and answers how many there were, none when they
// are not delivered. It must be over before another deliverer takes them up. Its
// error is Redis's.
func (d *deliverer[T]) round(ctx context.Context) (int, error) {
	all, err := d.reports.Next(ctx, group(d.app), d.times.claim+d.hook.Timeout, webhookBatch)
	if err != nil {
		return 0, err
	}
	var ours, others []T
	for _, t := range all {
		if d.appOf(t) == d.app {
			ours = append(ours, t)
		} else {
			others = append(others, t)
		}
	}
	if err := d.reports.Ack(ctx, group(d.app), others...); err != nil || len(ours) == 0 {
		return len(others), err
	}
	if !d.deliver(ctx, ours) {
		return 0, nil
	}
	return len(all), d.reports.Ack(ctx, group(d.app), ours...)
}

// deliver posts until it is acknowledged, or has been tried for long enough.
func (d *deliverer[T]) deliver(ctx context.Context, reports []T) bool {
	body, err := json.Marshal(map[WebhookKind][]T{d.kind: reports})
	if err != nil {
		d.log.LogAttrs(ctx, slog.LevelError, "what a webhook is to be told has no JSON form", slog.String("app", d.app), slog.Any("error", err))
		return false
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = d.times.again, 20*d.times.again, 2
	_, err = backoff.Retry(ctx, func() (struct{}, error) {
		err := d.post(ctx, body)
		d.tell(ctx, len(reports), err)
		return struct{}{}, err
	}, backoff.WithBackOff(b), backoff.WithMaxElapsedTime(d.times.give))
	return err == nil
}

// tell tells of a request: in the log, of the first that fails and of the next that
// does not.
func (d *deliverer[T]) tell(ctx context.Context, n int, err error) {
	if ctx.Err() != nil {
		return
	}
	d.seen.Posted(d.app, d.kind, err == nil)
	attrs := []slog.Attr{slog.String("app", d.app), slog.String("webhook", string(d.kind))}
	switch {
	case err != nil && !d.failing:
		attrs = append(attrs, slog.Int("reports", n), slog.Any("error", err))
		d.log.LogAttrs(ctx, slog.LevelWarn, "a webhook fails: what it is to be told is kept and posted again", attrs...)
	case err == nil && d.failing:
		d.log.LogAttrs(ctx, slog.LevelInfo, "the webhook works again", attrs...)
	}
	d.failing = err != nil
}

// post makes one request. The error leaves out the URL, which may hold a secret.
func (d *deliverer[T]) post(ctx context.Context, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.hook.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("the webhook's URL is not valid")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "pushpace")
	request.Header.Set(push.SignatureHeader, push.Sign(d.hook.Secret, body, time.Now()))
	response, err := d.client.Do(request)
	if err != nil {
		var inner *url.Error
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf("the webhook cannot be reached: %w", err)
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, webhookAnswer))
	response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the webhook answers %d, want 2xx", response.StatusCode)
	}
	return nil
}
