package throttle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
)

// A scriptedStore is a Planner with a scripted store.
type scriptedStore struct {
	calls atomic.Int64
	ask   atomic.Pointer[func(context.Context) error]
}

func (s *scriptedStore) set(ask func(context.Context) error) { s.ask.Store(&ask) }

func (s *scriptedStore) call(ctx context.Context) error {
	s.calls.Add(1)
	return (*s.ask.Load())(ctx)
}

func (s *scriptedStore) Acquire(ctx context.Context, r Request) (Decision, error) {
	return Decision{Status: Deferred}, s.call(ctx)
}
func (s *scriptedStore) AcquireAll(ctx context.Context, all []Request) ([]Decision, error) {
	return make([]Decision, len(all)), s.call(ctx)
}
func (s *scriptedStore) Cancel(ctx context.Context, r Request) (FollowUp, error) {
	return FollowUp{Early: []Booking{{ID: "b"}}}, s.call(ctx)
}
func (s *scriptedStore) CancelAll(ctx context.Context, _ []Request) (FollowUp, error) {
	return FollowUp{Early: []Booking{{ID: "b"}}}, s.call(ctx)
}
func (s *scriptedStore) Replan(ctx context.Context, _ []Request) (FollowUp, error) {
	return FollowUp{Early: []Booking{{ID: "b"}}}, s.call(ctx)
}
func (s *scriptedStore) ClearEarly(ctx context.Context, _ Request, _ []Booking) error {
	return s.call(ctx)
}
func (s *scriptedStore) Timeline(ctx context.Context, r Request) (Timeline, error) {
	return Timeline{Now: time.Unix(1, 0)}, s.call(ctx)
}

var errRefused = fmt.Errorf("%w: connection refused", ErrUnavailable)

func storeAnswers(context.Context) error { return nil }
func storeRefuses(context.Context) error { return errRefused }

// storeHangs answers only after the limiter's timeout.
func storeHangs(timeout time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(timeout):
			return errRefused
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
		}
	}
}

var outageCall = Request{User: "u", ID: "n", Scopes: []Scope{{Name: General}}}

// outageLog returns a logger and its output.
func outageLog() (*slog.Logger, *bytes.Buffer) {
	var text bytes.Buffer
	return slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})), &text
}

func TestOutageClosedFailsFastAndProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedStore{}
		log, text := outageLog()
		o := WithOutage(s, "", OutageOptions{Log: log})
		acquire := func() error {
			_, err := o.Acquire(t.Context(), outageCall)
			return err
		}
		s.set(storeAnswers)
		if err := acquire(); err != nil || text.Len() > 0 {
			t.Fatalf("%v, logged %q", err, text)
		}
		s.set(storeRefuses)
		began := time.Now()
		// Times since the start of the outage at which the store was called.
		var asked []time.Duration
		for range 400 { // 4 s
			before := s.calls.Load()
			if err := acquire(); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("%v; want ErrUnavailable", err)
			}
			if s.calls.Load() > before {
				asked = append(asked, time.Since(began))
			}
			time.Sleep(10 * time.Millisecond)
		}
		var want []time.Duration
		for at := time.Duration(0); at < 4*time.Second; at += probeInterval {
			want = append(want, at)
		}
		if fmt.Sprint(asked) != fmt.Sprint(want) {
			t.Errorf("asked at %v; want %v", asked, want)
		}
		if stats := o.Stats(); stats != (OutageStats{Outages: 1, Failed: 400, Since: began, Cause: errRefused}) {
			t.Errorf("%+v", stats)
		}
		s.set(storeAnswers)
		time.Sleep(time.Second)
		for range 2 {
			must(t, acquire())
		}
		if stats := o.Stats(); stats != (OutageStats{Outages: 1, Failed: 400}) {
			t.Errorf("after: %+v", stats)
		}
		wantLog := "level=WARN msg=\"the limits' store is unavailable\" on_outage=closed error=\"" + errRefused.Error() + "\"\n" +
			"level=INFO msg=\"the limits' store is back\" lasted=5s calls=400 unchecked=0\n"
		if text.String() != wantLog {
			t.Errorf("logged\n%s\nwant\n%s", text, wantLog)
		}
	})
}

func TestOutageOpenGrantsUnchecked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedStore{}
		log, text := outageLog()
		o := WithOutage(s, Open, OutageOptions{Log: log})
		s.set(storeRefuses)
		for range 3 {
			d, err := o.Acquire(t.Context(), outageCall)
			if err != nil || d.Status != Granted || !d.Unchecked || !d.At.Equal(time.Now()) || d.Left != 0 {
				t.Errorf("%+v, %v", d, err)
			}
		}
		if _, err := o.Cancel(t.Context(), outageCall); !errors.Is(err, ErrUnavailable) {
			t.Errorf("cancel: %v", err)
		}
		if _, err := o.Replan(t.Context(), []Request{outageCall}); !errors.Is(err, ErrUnavailable) {
			t.Errorf("replan: %v", err)
		}
		if _, err := o.Timeline(t.Context(), outageCall); !errors.Is(err, ErrUnavailable) {
			t.Errorf("timeline: %v", err)
		}
		if stats := o.Stats(); stats.Outages != 1 || stats.Unchecked != 3 || stats.Failed != 3 {
			t.Errorf("%+v", stats)
		}
		if n := s.calls.Load(); n != 1 {
			t.Errorf("the store was asked %d times; want 1", n)
		}
		s.set(storeAnswers)
		time.Sleep(probeInterval)
		if d, err := o.Acquire(t.Context(), outageCall); err != nil || d.Unchecked || d.Status != Deferred {
			t.Errorf("after: %+v, %v", d, err)
		}
		if !strings.Contains(text.String(), "lasted=250ms calls=6 unchecked=3") {
			t.Errorf("logged %q", text)
		}
	})
}

func TestHungProbeBlocksNoOtherCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedStore{}
		s.set(storeHangs(3 * time.Second))
		o := WithOutage(s, Closed, OutageOptions{})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				if _, err := o.Acquire(t.Context(), outageCall); !errors.Is(err, ErrUnavailable) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// Ten failures are one outage, and do not lengthen the pause. One call probes; while it
		// hangs, the others do not wait.
		time.Sleep(probeInterval)
		for range 10 {
			wg.Go(func() { _, _ = o.Timeline(t.Context(), outageCall) })
		}
		synctest.Wait()
		if n := s.calls.Load(); n != 11 {
			t.Errorf("the store was asked %d times; want 11", n)
		}
		if stats := o.Stats(); stats.Outages != 1 || stats.Failed != 19 {
			t.Errorf("%+v", stats)
		}
		wg.Wait()
		if stats := o.Stats(); stats.Outages != 1 || stats.Failed != 20 {
			t.Errorf("%+v", stats)
		}
	})
}

func TestCallerDeadlineIsNoOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, mode := range []OnOutage{Closed, Open} {
			s := &scriptedStore{}
			s.set(storeHangs(time.Second))
			o := WithOutage(s, mode, OutageOptions{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if d, err := o.Acquire(ctx, outageCall); !errors.Is(err, context.DeadlineExceeded) || d.Unchecked {
				t.Errorf("%s: %+v, %v", mode, d, err)
			}
			if _, err := o.Acquire(ctx, outageCall); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: a context that has ended: %v", mode, err)
			}
			cancel()
			if stats := o.Stats(); stats != (OutageStats{}) {
				t.Errorf("%s: %+v", mode, stats)
			}
			// If the caller of a probe gives up, the next call probes.
			s.set(storeRefuses)
			_, _ = o.Acquire(t.Context(), outageCall)
			time.Sleep(probeInterval)
			s.set(storeHangs(time.Second))
			ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
			_, _ = o.Acquire(ctx, outageCall)
			cancel()
			s.set(storeAnswers)
			if d, err := o.Acquire(t.Context(), outageCall); err != nil || d.Unchecked {
				t.Errorf("%s: the next: %+v, %v", mode, d, err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestOutageReturnsAnswersAndOtherErrorsUnchanged(t *testing.T) {
	t.Parallel()
	s := &scriptedStore{}
	o := WithOutage(s, Open, OutageOptions{})
	wrong := errors.New("WRONGTYPE")
	s.set(func(context.Context) error { return wrong })
	if d, err := o.Acquire(t.Context(), outageCall); err != wrong || d.Unchecked {
		t.Errorf("%+v, %v", d, err)
	}
	s.set(storeRefuses)
	_, _ = o.Acquire(t.Context(), outageCall)
	calls := s.calls.Load()
	for name, r := range map[string]Request{
		"no user": {ID: "n", Scopes: outageCall.Scopes},
		"no ID":   {User: "u", Scopes: outageCall.Scopes},
	} {
		if d, err := o.Acquire(t.Context(), r); err == nil || errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	if s.calls.Load() != calls {
		t.Error("a faulty request went to the store")
	}
	s.set(storeAnswers)
	if _, err := o.Acquire(t.Context(), Request{User: "u", ID: "n"}); err != nil {
		t.Errorf("without scopes: %v", err)
	}
	if o.Stats().Since.IsZero() {
		t.Error("a request that asks no store ended the outage")
	}

	o = WithOutage(s, Closed, OutageOptions{})
	if moved, err := o.Cancel(t.Context(), outageCall); err != nil || len(moved.Early) != 1 {
		t.Errorf("cancel: %v, %v", moved, err)
	}
	if moved, err := o.Replan(t.Context(), []Request{outageCall}); err != nil || len(moved.Early) != 1 {
		t.Errorf("replan: %v, %v", moved, err)
	}
	if line, err := o.Timeline(t.Context(), outageCall); err != nil || line.Now.IsZero() {
		t.Errorf("timeline: %v, %v", line, err)
	}
}

// Each node has its own outages. An outage ends when its node serves again, or when no call uses
// the node any more. The outage of a single server ends only when the server serves again.
func TestOutageEndsWhenNodeIsUnused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &scriptedNodes{}
		log, text := outageLog()
		o := WithOutage(s, Closed, OutageOptions{Log: log})
		s.set(storeRefuses)
		began := time.Now()
		for range 10 { // 20 s; a waiting job asks every 2 s
			for _, s.node = range []string{"a:1", "b:2", ""} {
				_, _ = o.Acquire(t.Context(), outageCall)
			}
			time.Sleep(2 * time.Second)
		}
		if stats := o.Stats(); stats.Outages != 3 || !stats.Since.Equal(began) {
			t.Errorf("%+v", stats)
		}
		s.set(storeAnswers)
		s.node = "b:2"
		must(t, errOf(o.Acquire(t.Context(), outageCall)))
		time.Sleep(nodeRemovedAfter)
		if stats := o.Stats(); stats.Outages != 3 || stats.Node != "" || stats.Since.IsZero() {
			t.Errorf("half a minute later: %+v", stats)
		}
		s.node = ""
		must(t, errOf(o.Acquire(t.Context(), outageCall)))
		if stats := o.Stats(); !stats.Since.IsZero() {
			t.Errorf("at the end: %+v", stats)
		}
		for _, line := range []string{
			"msg=\"the limits' store is back\" node=b:2 lasted=20s", "msg=\"the limits' store is not asked any more\" node=a:1 lasted=50s calls=10 ",
			"msg=\"the limits' store is back\" lasted=50s",
		} {
			if strings.Count(text.String(), line) != 1 {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	})
}

// scriptedNodes is a scriptedStore on several nodes.
type scriptedNodes struct {
	scriptedStore
	node string
}

func (s *scriptedNodes) Node(context.Context, Request) string { return s.node }

// outageRedis returns a Redis limiter with that timeout.
func outageRedis(t *testing.T, o *redis.Options, timeout time.Duration) *Redis {
	o.MaxRetries = -1
	return newLimiter(t, redistest.Connect(t, o), Options{Prefix: redistest.Prefix(), Timeout: timeout})
}

func outageRequest(id string) Request {
	return Request{User: "u", ID: id, Scopes: []Scope{{Name: General, Policy: Policy{Rates: []Rate{{1000, time.Hour}}}}}}
}

// A timed-out call is retried once, because this process may have been stopped. A refused call or
// a probe is not retried.
func TestTimeoutIsRetriedBeforeOutage(t *testing.T) {
	t.Parallel()
	errLate := fmt.Errorf("%w: %w", ErrUnavailable, context.DeadlineExceeded)
	s := &scriptedStore{}
	times := func(n int64, err error) {
		late := s.calls.Load() + n
		s.set(func(context.Context) error {
			if s.calls.Load() <= late {
				return err
			}
			return nil
		})
	}
	o := WithOutage(s, Open, OutageOptions{})
	times(1, errLate)
	if d, err := o.Acquire(t.Context(), outageCall); err != nil || d.Unchecked || d.Status != Deferred || s.calls.Load() != 2 {
		t.Errorf("%+v, %v, by %d calls", d, err, s.calls.Load())
	}
	times(1, errLate)
	before := s.calls.Load()
	if moved, err := o.Replan(t.Context(), []Request{outageCall}); err != nil || len(moved.Early) != 1 || s.calls.Load() != before+2 {
		t.Errorf("it tells of %v, %v, by %d calls", moved, err, s.calls.Load())
	}
	if stats := o.Stats(); stats != (OutageStats{}) {
		t.Errorf("%+v", stats)
	}
	for _, tt := range []struct {
		err   error
		calls int64
	}{{errRefused, 1}, {errLate, 2}, {fmt.Errorf("%w: %w", ErrUnavailable, redis.ErrPoolTimeout), 2}} {
		synctest.Test(t, func(t *testing.T) {
			o := WithOutage(s, Open, OutageOptions{})
			times(10, tt.err)
			for _, calls := range []int64{tt.calls, 1} { // the second is a probe
				before := s.calls.Load()
				if d, err := o.Acquire(t.Context(), outageCall); err != nil || !d.Unchecked || s.calls.Load()-before != calls {
					t.Errorf("%v: %+v, %v, by %d calls", tt.err, d, err, s.calls.Load()-before)
				}
				time.Sleep(probeInterval)
			}
			if stats := o.Stats(); stats.Outages != 1 || stats.Unchecked != 2 {
				t.Errorf("%v: %+v", tt.err, stats)
			}
		})
	}
}
