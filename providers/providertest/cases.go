package providertest

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/providers"
	"github.com/pushpace/pushpace/providers/standin"
)

// nowhere accepts no connection.
const nowhere = "https://127.0.0.1:1"

// stall is the longest pause of a busy machine.
const stall = 30 * time.Second

// brief is the first time-out of a sender that gets no answer.
const brief = 100 * time.Millisecond

type testCase struct {
	name string
	run  func(*bench)
}

// retryAfter is the scripted Retry-After. It is longer than every provider's minimum.
const retryAfter = 90 * time.Second

var cases = []testCase{
	{"delivered", testDelivered},
	{"dead token", refused(standin.Answer{Status: http.StatusGone}, func(b *bench, o providers.Outcome) {
		b.want(o, providers.DeadToken)
		b.wantConcern(o, providers.ConcernsToken)
	})},
	{"Retry-After in seconds", refused(
		standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: retryAfter}, wantRetryAfter)},
	{"Retry-After as a date", refused(
		standin.Answer{Status: http.StatusTooManyRequests, RetryAfter: retryAfter, RetryAfterDate: true}, wantRetryAfter)},
	{"503 with Retry-After", refused(
		standin.Answer{Status: http.StatusServiceUnavailable, RetryAfter: retryAfter}, wantRetryAfter)},
	{"429", refused(standin.Answer{Status: http.StatusTooManyRequests}, func(b *bench, o providers.Outcome) {
		b.want(o, providers.Retry)
		b.wantAmbiguous(o, false)
		if o.RetryAfter < providers.MinRetryAfter || o.RetryAfter > providers.MaxRetryAfter {
			b.Errorf("Retry-After is %v though the provider named none", o.RetryAfter)
		}
	})},
	{"500", refused(standin.Answer{Status: http.StatusInternalServerError}, wantProviderTrouble)},
	{"503", refused(standin.Answer{Status: http.StatusServiceUnavailable}, wantProviderTrouble)},
	{"page of a proxy", refused(standin.Answer{Status: http.StatusBadGateway, Fault: standin.Page}, func(b *bench, o providers.Outcome) {
		b.want(o, providers.Retry, providers.Unreadable)
	})},
	{"misconfigured", func(b *bench) {
		refused(b.Misconfigured, func(b *bench, o providers.Outcome) { b.want(o, providers.Misconfigured) })(b)
	}},
	{"rejected", func(b *bench) {
		refused(b.Rejected, func(b *bench, o providers.Outcome) {
			b.want(o, providers.Rejected)
			b.wantConcern(o, providers.ConcernsMessage)
		})(b)
	}},
	{"cannot be rendered", testCannotBeRendered},
	{"black hole", testBlackHole},
	{"black hole within the context", testBlackHoleWithinContext},
	{"abrupt close", broken(standin.Close)},
	{"GOAWAY after taking it", broken(standin.GoAway)},
	{"GOAWAY with pushes in flight", testDrain},
	{"too late", testTooLate},
	{"dry run", testDryRun},
	{"dial failure", testDialFailure},
	{"cancelled before", testCancelledBefore},
	{"cancelled under way", testCancelledUnderWay},
	{"300 at once", testConcurrent},
	{"after Close", testAfterClose},
}

func testDelivered(b *bench) {
	s := b.sender(Options{})
	o := b.send(b.Context(), s, 0)
	b.want(o, providers.Delivered, providers.OK)
	b.wantCounts(1, 1)
	entries := b.StandIn.Ledger().Entries()
	if len(entries) != 1 {
		b.Fatalf("the ledger keeps %d entries, want 1", len(entries))
	}
	e := entries[0]
	if e.Token != b.Token(0) || e.Notification != "id" || e.Platform != string(b.Platform) {
		b.Errorf("accepted %+v", e)
	}
	if o.ProviderID == "" || o.ProviderID != e.Name && o.ProviderID != e.APNsID {
		b.Errorf("provider's ID %q, the stand-in gave %q", o.ProviderID, e.Name+e.APNsID)
	}
}

// refused returns a case in which one push is refused with answer, and the next
// is delivered through the same sender.
func refused(answer standin.Answer, check func(*bench, providers.Outcome)) func(*bench) {
	return func(b *bench) {
		s := b.sender(Options{})
		b.StandIn.Respond(b.Token(0), answer)
		began := time.Now()
		o := b.send(b.Context(), s, 0)
		if took := time.Since(began); took > stall {
			b.Errorf("took %v: it must not wait by itself", took)
		}
		check(b, o)
		b.wantCounts(1, 0)
		b.want(b.send(b.Context(), s, 1), providers.Delivered)
		b.wantCounts(2, 1)
	}
}

func wantRetryAfter(b *bench, o providers.Outcome) {
	b.want(o, providers.Retry)
	// A date has whole seconds, and the answer takes time to arrive.
	if o.RetryAfter > retryAfter+time.Second || o.RetryAfter < retryAfter-10*time.Second {
		b.Errorf("Retry-After is %v, want about %v", o.RetryAfter, retryAfter)
	}
	if o.Ambiguous {
		b.Error("ambiguous, though the provider refused it")
	}
}

func wantProviderTrouble(b *bench, o providers.Outcome) {
	b.want(o, providers.Retry)
	b.wantConcern(o, providers.ConcernsProvider)
}

func (b *bench) wantConcern(o providers.Outcome, want providers.Concern) {
	b.Helper()
	if o.Concerns != want {
		b.Errorf("concerns %d, want %d", o.Concerns, want)
	}
}

func testCannotBeRendered(b *bench) {
	s := b.sender(Options{})
	n := notification("id")
	n.Body = strings.Repeat("x", 6000) // more than any platform takes
	b.want(b.sendThis(b.Context(), s, 0, n, providers.Departure{}), providers.Rejected, providers.Invalid)
	b.wantCounts(0, 0)
}

// testBlackHole checks that the sender's own time-out ends an attempt that was taken. On a machine
// that is too slow for the time-out, it tries a longer time-out.
func testBlackHole(b *bench) {
	for i, timeout := 0, brief; ; i, timeout = i+1, 2*timeout {
		s := b.sender(Options{Timeout: timeout})
		b.StandIn.Respond(b.Token(i), standin.Answer{Fault: standin.BlackHole})
		began := time.Now()
		o := b.send(b.Context(), s, i)
		b.wantWithin(began, timeout)
		b.want(o, providers.Retry)
		taken := slices.ContainsFunc(b.StandIn.Ledger().Entries(), func(e standin.Entry) bool { return e.Token == b.Token(i) })
		if taken || timeout > eventually.Patience {
			b.want(o, providers.Retry, providers.TimedOut)
			b.wantAmbiguous(o, true)
			return
		}
	}
}

// testBlackHoleWithinContext passes the context's deadline once the push was taken.
func testBlackHoleWithinContext(b *bench) {
	s := b.sender(Options{})
	b.StandIn.Respond(b.Token(0), standin.Answer{Fault: standin.BlackHole})
	ctx := NewDeadline(b.Context())
	outcome := make(chan providers.Outcome, 1)
	go func() { outcome <- b.send(ctx, s, 0) }()
	eventually.Holds(b, "the push is taken", func() bool { return b.StandIn.Ledger().Len() == 1 })
	ctx.Pass()
	o := <-outcome
	b.want(o, providers.Retry, providers.TimedOut)
	b.wantAmbiguous(o, true)
	b.wantCounts(1, 1)
	b.want(b.send(b.Context(), s, 1), providers.Delivered)
}

// wantWithin checks that Send returned by its deadline; 0 means at once.
func (b *bench) wantWithin(began time.Time, deadline time.Duration) {
	b.Helper()
	if took := time.Since(began); took > deadline+stall {
		b.Errorf("took %v, the deadline is %v", took, deadline)
	}
}

func (b *bench) wantAmbiguous(o providers.Outcome, want bool) {
	b.Helper()
	if o.Ambiguous != want {
		b.Errorf("ambiguous is %v, want %v (%s: %v)", o.Ambiguous, want, o.Reason, o.Err)
	}
}

// broken returns a case in which the connection breaks after the push was taken.
func broken(fault standin.Fault) func(*bench) {
	return func(b *bench) {
		s := b.sender(Options{})
		b.want(b.send(b.Context(), s, 1), providers.Delivered) // on a warm connection
		b.StandIn.Respond(b.Token(0), standin.Answer{Fault: fault})
		began := time.Now()
		o := b.send(b.Context(), s, 0)
		b.wantWithin(began, 0)
		b.want(o, providers.Retry, providers.ConnectionLost)
		b.wantAmbiguous(o, true)
		b.wantCounts(2, 2)
		b.want(b.send(b.Context(), s, 2), providers.Delivered)
		b.wantCounts(3, 3)
	}
}

// testDrain checks that no push is lost, doubled or ambiguous when the provider drains a
// connection: it answers the accepted pushes and accepts no more.
func testDrain(b *bench) {
	const n = 64
	s := b.sender(Options{})
	b.want(b.send(b.Context(), s, n), providers.Delivered)
	outcomes := make([]providers.Outcome, n)
	var sends sync.WaitGroup
	for i := range n {
		answer := standin.Answer{Delay: 50 * time.Millisecond}
		if i == n/2 {
			answer = standin.Answer{Delay: 20 * time.Millisecond, Fault: standin.Drain}
		}
		b.StandIn.Respond(b.Token(i), answer)
		sends.Go(func() {
			outcomes[i] = b.sendThis(b.Context(), s, i, notification(fmt.Sprint("id-", i)), providers.Departure{})
		})
	}
	sends.Wait()
	times := make(map[string]int)
	for _, e := range b.StandIn.Ledger().Entries() {
		times[e.Token]++
	}
	for i, o := range outcomes {
		if o.Kind != providers.Delivered || times[b.Token(i)] != 1 {
			b.Errorf("push %d: %v (%s: %v), accepted %d times", i, o.Kind, o.Reason, o.Err, times[b.Token(i)])
		}
	}
}

// testTooLate sends pushes that may not leave, on a cold connection and on a warm one.
func testTooLate(b *bench) {
	s := b.sender(Options{})
	started := new(atomic.Int32)
	for accepted := range 2 {
		for name, departure := range map[string]providers.Departure{
			"its instant has passed":    {Before: time.Now(), Started: started},
			"it may not leave any more": {Before: time.Now().Add(stall), May: func() bool { return false }, Started: started},
		} {
			o := b.sendThis(b.Context(), s, 0, notification("id"), departure)
			b.want(o, providers.Retry, providers.TooLate)
			b.wantConcern(o, providers.ConcernsMessage)
			b.wantAmbiguous(o, false)
			if started.Load() != int32(accepted) || b.StandIn.Ledger().Len() != accepted {
				b.Errorf("%s: %d have started, %d are accepted, want %d", name, started.Load(), b.StandIn.Ledger().Len(), accepted)
			}
		}
		departure := providers.Departure{Before: time.Now().Add(stall), May: func() bool { return true }, Started: started}
		b.want(b.sendThis(b.Context(), s, 0, notification("id"), departure), providers.Delivered)
	}
}

func testDryRun(b *bench) {
	s := b.sender(Options{DryRun: true})
	b.want(b.send(b.Context(), s, 0), providers.Delivered, providers.DryRun)
	large := notification("id")
	large.Body = strings.Repeat("x", 6000) // more than any platform takes
	b.want(b.sendThis(b.Context(), s, 0, large, providers.Departure{}), providers.Rejected, providers.Invalid)
	if n := b.StandIn.Ledger().Len(); n != 0 {
		b.Errorf("%d pushes were accepted", n)
	}
	ended, cancel := context.WithCancel(b.Context())
	cancel()
	b.want(b.send(ended, s, 0), providers.Retry, providers.Cancelled)
}

func testDialFailure(b *bench) {
	s := b.sender(Options{Endpoint: nowhere})
	began := time.Now()
	o := b.send(b.Context(), s, 0)
	b.wantWithin(began, 0)
	b.want(o, providers.Retry, providers.DialFailed)
	b.wantConcern(o, providers.ConcernsProvider)
	b.wantAmbiguous(o, false)
	b.wantCounts(0, 0)
}

func testCancelledBefore(b *bench) {
	s := b.sender(Options{})
	ctx, cancel := context.WithCancel(b.Context())
	cancel()
	o := b.send(ctx, s, 0)
	b.want(o, providers.Retry, providers.Cancelled)
	b.wantAmbiguous(o, false)
	b.wantCounts(0, 0)
}

func testCancelledUnderWay(b *bench) {
	s := b.sender(Options{})
	b.StandIn.Respond(b.Token(0), standin.Answer{Fault: standin.BlackHole})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	outcome := make(chan providers.Outcome, 1)
	go func() { outcome <- b.send(ctx, s, 0) }()
	eventually.Holds(b, "the push is taken", func() bool { return b.StandIn.Ledger().Len() == 1 })
	cancel()
	o := <-outcome
	b.want(o, providers.Retry, providers.Cancelled)
	b.wantAmbiguous(o, true)
	b.wantCounts(1, 1)
}

func testConcurrent(b *bench) {
	const n = 300
	s := b.sender(Options{})
	outcomes := make([]providers.Outcome, n)
	var sends sync.WaitGroup
	for i := range n {
		b.StandIn.Respond(b.Token(i), standin.Answer{Delay: 20 * time.Millisecond})
		sends.Go(func() {
			outcomes[i] = b.sendThis(b.Context(), s, i, notification(fmt.Sprint("id-", i)), providers.Departure{})
		})
	}
	sends.Wait()
	for i, o := range outcomes {
		if o.Kind != providers.Delivered {
			b.Errorf("push %d: %v (%s: %v)", i, o.Kind, o.Reason, o.Err)
		}
	}
	b.wantCounts(n, n)
	if c := b.StandIn.Count(); c.Peak > b.MostInFlight || c.Open > b.MostOpen {
		b.Errorf("%d in flight at once, want at most %d; %d connections open, want at most %d", c.Peak, b.MostInFlight, c.Open, b.MostOpen)
	}
	seen := make(map[string]string)
	for _, e := range b.StandIn.Ledger().Entries() {
		seen[e.Token] = e.Notification
	}
	for i := range n {
		if want := fmt.Sprint("id-", i); seen[b.Token(i)] != want {
			b.Errorf("token %d got %q, want %q", i, seen[b.Token(i)], want)
		}
	}
}

func testAfterClose(b *bench) {
	s := b.New(b.T, Options{})
	b.want(b.send(b.Context(), s, 0), providers.Delivered)
	if err := s.Close(); err != nil {
		b.Fatalf("Close: %v", err)
	}
	if err := s.Close(); err != nil {
		b.Errorf("Close again: %v", err)
	}
	o := b.send(b.Context(), s, 1)
	b.want(o, providers.Retry)
	b.wantAmbiguous(o, false)
	b.wantCounts(1, 1)
}

// testLeaks checks that a sender leaves no connection or goroutine after failures.
func testLeaks(t *testing.T, start func(t *testing.T) Harness) {
	before := goleak.IgnoreCurrent()
	h := start(t)
	b := &bench{T: t, Harness: h}
	s := h.New(t, Options{Timeout: brief})
	h.StandIn.Respond(h.Token(1), standin.Answer{Fault: standin.BlackHole})
	h.StandIn.Respond(h.Token(2), standin.Answer{Fault: standin.Close})
	for i := range 4 {
		b.send(t.Context(), s, i)
	}
	unreachable := h.New(t, Options{Endpoint: nowhere})
	unreachable.Send(t.Context(), notification("id"), h.target(0), providers.Departure{})
	for _, s := range []providers.Sender{s, unreachable} {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	// The stand-in still runs: only the sender could have left a connection open.
	eventually.Holds(b, "every connection is closed", func() bool { return h.StandIn.Count().Open == 0 })
	if err := h.StandIn.Close(); err != nil {
		t.Errorf("close the stand-in: %v", err)
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
