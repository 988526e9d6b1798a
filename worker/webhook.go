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

	"github.com/pushpace/pushpace/push"
)

// A Webhook is where an app's dead tokens are posted, at least once each, as
//
//	{"dead_tokens":[…]}
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
	// webhookBatch is how many dead tokens a request carries at most.
	webhookBatch = 100
	// webhookAnswer bounds what is read of an answer, in bytes.
	webhookAnswer = 64 << 10
)

// deliverDeadTokens starts a deliverer for each webhook.
func (h *handler) deliverDeadTokens() {
	for app, hook := range h.Webhooks {
		orDefault(&hook.Timeout, 5*time.Second)
		d := &deliverer{app, hook, h.deadTokens, h.times.webhook, &http.Client{
			Timeout:       hook.Timeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport:     http.DefaultTransport.(*http.Transport).Clone(),
		}, h.Log}
		h.side.Go(func() { d.run(h.stopping) })
	}
}

// A deliverer posts one app's dead tokens. Those of all workers share a group of
// the stream; what one leaves unacknowledged, another takes up.
type deliverer struct {
	app    string
	hook   Webhook
	tokens *push.DeadTokens
	times  webhookTimes
	client *http.Client
	log    *slog.Logger
}

func (d *deliverer) run(ctx context.Context) {
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
			d.log.LogAttrs(ctx, slog.LevelWarn, "dead tokens not delivered", slog.String("app", d.app), slog.Int("tokens", n), slog.Any("error", err))
		}
		wait := d.times.poll
		if err == nil && n > 0 {
			wait = 0
		}
		timer.Reset(wait)
	}
}

// round delivers the next dead tokens, and answers how many there were. It must
// be over before another deliverer takes them up.
func (d *deliverer) round(ctx context.Context) (int, error) {
	group := "webhook:" + d.app
	all, err := d.tokens.Next(ctx, group, d.times.claim+d.hook.Timeout, webhookBatch)
	if err != nil {
		return 0, err
	}
	var ours, others []push.DeadToken
	for _, t := range all {
		if t.App == d.app {
			ours = append(ours, t)
		} else {
			others = append(others, t)
		}
	}
	if err := d.tokens.Ack(ctx, group, others...); err != nil || len(ours) == 0 {
		return len(others), err
	}
	if err := d.deliver(ctx, ours); err != nil {
		return len(ours), err
	}
	return len(all), d.tokens.Ack(ctx, group, ours...)
}

// deliver posts until it is acknowledged, or has been tried for long enough.
func (d *deliverer) deliver(ctx context.Context, tokens []push.DeadToken) error {
	body, err := json.Marshal(map[string]any{"dead_tokens": tokens})
	if err != nil {
		return err
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.Multiplier = d.times.again, 20*d.times.again, 2
	_, err = backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, d.post(ctx, body) },
		backoff.WithBackOff(b), backoff.WithMaxElapsedTime(d.times.give))
	return err
}

// post makes one request. The error leaves out the URL, which may hold a secret.
func (d *deliverer) post(ctx context.Context, body []byte) error {
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
