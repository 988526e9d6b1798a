package throttle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// An onTrip is a client's hook that is called for each of its commands, beside what makes
// the round trip.
type onTrip func(ctx context.Context, cmd redis.Cmder, trip func() error) error

func (onTrip) DialHook(next redis.DialHook) redis.DialHook { return next }
func (f onTrip) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return f(ctx, cmd, func() error { return next(ctx, cmd) })
	}
}
func (onTrip) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// onPage calls f for each of a Reschedule's pages.
func onPage(f func(ctx context.Context, trip func() error) error) onTrip {
	return func(ctx context.Context, cmd redis.Cmder, trip func() error) error {
		const op = 3 + 7 // behind the script's name, the number of keys, and these
		if args := cmd.Args(); len(args) > op && (args[op] == opReschedule || args[op] == opProceed) {
			return f(ctx, trip)
		}
		return trip()
	}
}

var (
	every10s = Policy{MinGap: 10 * time.Second}
	every2s  = Policy{MinGap: 2 * time.Second}
)

// newRaisedLine has so many wait by every10s, of whom a page of a Reschedule takes two.
func newRaisedLine(t *testing.T, waiting int) *pagedLine {
	l := newPagedLine(t, onePage)
	for i := range waiting + 1 {
		l.acquire(fmt.Sprintf("n%02d", i), every10s)
	}
	return l
}

func TestEachRoundTripHasATimeOutOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(l *pagedLine){
		"pages":                      func(*pagedLine) {},
		"a script that is not known": func(l *pagedLine) { l.limiter.client.ScriptFlush(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newRaisedLine(t, 3)
			before(l)
			var ends []time.Time
			l.limiter.client.AddHook(onPage(func(ctx context.Context, trip func() error) error {
				end, bounded := ctx.Deadline()
				if !bounded {
					t.Error("a round trip has no end")
				}
				ends = append(ends, end)
				return trip()
			}))
			if _, err := l.limiter.Reschedule(t.Context(), l.request("", every2s)); err != nil {
				t.Fatal(err)
			}
			if len(ends) < 2 {
				t.Fatalf("%d round trips", len(ends))
			}
			for i := range ends[1:] {
				if !ends[i+1].After(ends[i]) {
					t.Errorf("the round trips are to end at %v", ends)
				}
			}
		})
	}
}

// A store that answers each call in time is not away, however long all calls of a
// Reschedule take together.
func TestALongRescheduleIsNoOutage(t *testing.T) {
	t.Parallel()
	for _, mode := range []OnOutage{Closed, Open} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			l := newRaisedLine(t, 16)
			l.limiter.timeout = time.Second
			o := WithOutage(l.limiter, mode, OutageOptions{})
			pages := 0
			l.limiter.client.AddHook(onPage(func(ctx context.Context, trip func() error) error {
				pages++
				slow := time.NewTimer(l.limiter.timeout / 4)
				defer slow.Stop()
				select {
				case <-slow.C:
				case <-ctx.Done():
					return ctx.Err()
				}
				// meanwhile whoever comes is checked
				d, err := o.Acquire(t.Context(), l.request(fmt.Sprint("beside", pages), every10s))
				if err != nil || d.Unchecked || d.Status != Deferred {
					t.Errorf("beside page %d: %+v, %v", pages, d, err)
				}
				return trip()
			}))
			if _, err := o.Reschedule(t.Context(), l.request("", every2s)); err != nil {
				t.Error(err)
			}
			if pages < 6 {
				t.Errorf("%d pages, which do not take longer than the time-out", pages)
			}
			if stats := o.Stats(); stats != (OutageStats{}) {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// Others go on with what a Reschedule has left. Once they have done so to the end it has
// nothing left to do.
func TestAReschedulesRestMayBeDoneByOthers(t *testing.T) {
	t.Parallel()
	l := newRaisedLine(t, 12)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	pages := 0
	l.limiter.client.AddHook(onPage(func(_ context.Context, trip func() error) error {
		err := trip()
		if pages++; pages > 12 {
			cancel() // it does not end
		}
		for i := 0; l.rest() != ""; i++ {
			l.acquire(fmt.Sprint("other", pages, i), every2s)
		}
		return err
	}))
	if _, err := l.limiter.Reschedule(ctx, l.request("", every2s)); err != nil || pages != 2 {
		t.Errorf("%d pages, %v; want 2: one, and another that finds nothing", pages, err)
	}
	l.spaced(every2s.MinGap)
}

// What a Reschedule has moved before it fails is told, and is not done again.
func TestAFailedRescheduleIsGoneOnWith(t *testing.T) {
	t.Parallel()
	l := newRaisedLine(t, 12)
	refused := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	pages := 0
	l.limiter.client.AddHook(onPage(func(_ context.Context, trip func() error) error {
		if pages++; pages == 3 {
			return refused
		}
		return trip()
	}))
	request := l.request("", every2s)
	first, err := l.limiter.Reschedule(t.Context(), request)
	if !errors.Is(err, ErrUnavailable) || len(first) == 0 {
		t.Fatalf("moved %v, %v", first, err)
	}
	second, err := l.limiter.Reschedule(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, b := range append(first, second...) {
		if told[b.ID] {
			t.Errorf("%s has moved twice", b.ID)
		}
		told[b.ID] = true
	}
	if len(told) != 12 {
		t.Errorf("%d have moved, of 12", len(told))
	}
	l.spaced(every2s.MinGap)
}
