package route

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/providers"
)

func TestSymptom(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    providers.Outcome
		want error
	}{
		"delivered":        {providers.Outcome{Kind: providers.Delivered}, nil},
		"dead token":       {providers.Outcome{Kind: providers.DeadToken, Concerns: providers.ConcernsToken}, nil},
		"rejected":         {providers.Outcome{Kind: providers.Rejected, Concerns: providers.ConcernsApp}, nil},
		"429 of a token":   {providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsToken}, nil},
		"5xx":              {providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsProvider}, errTrouble},
		"quota":            {providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsApp}, errTrouble},
		"stale credential": {providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsCredential}, errTrouble},
		"misconfigured":    {providers.Outcome{Kind: providers.Misconfigured, Concerns: providers.ConcernsApp}, errTrouble},
		"cancelled":        {providers.Outcome{Kind: providers.Retry, Reason: providers.Cancelled}, errSaysNothing},
		"not tried":        {providers.Outcome{Kind: providers.Retry, Reason: providers.OriginBackoff, Concerns: providers.ConcernsToken}, errSaysNothing},
		"panic":            {providers.Outcome{}, errSaysNothing},
	} {
		if got := symptom(c.o); !errors.Is(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestInTrouble(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		consecutive, failures, successes uint32
		want                             bool
	}{
		{0, 0, 0, false},
		{4, 4, 0, false},
		{5, 5, 0, true},
		{1, 5, 5, true},
		{5, 5, 6, false},
		{9, 9, 1000, false},
		{10, 10, 1000, true},
	} {
		if got := inTrouble(c.consecutive, c.failures, c.successes); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

var (
	works  = providers.Outcome{Kind: providers.Delivered}
	broken = providers.Outcome{Kind: providers.Retry, Concerns: providers.ConcernsProvider}
	gaveUp = providers.Outcome{Kind: providers.Retry, Reason: providers.Cancelled}
)

// push sends one push with that outcome, and answers whether it was let through.
func (b *breaker) push(o providers.Outcome) bool {
	done, ok := b.allow()
	if ok {
		done(o)
	}
	return ok
}

func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes []bool
		b := newBreaker(5*time.Second, func(open bool) { changes = append(changes, open) })
		want := func(what string, left time.Duration) {
			t.Helper()
			if got := b.left(time.Now()); got != left {
				t.Errorf("%s: closed for %s, want %s", what, got, left)
			}
		}
		for range 4 {
			b.push(broken)
		}
		want("few failures", 0)
		time.Sleep(breakerWindow + breakerBucket)
		b.push(broken)
		want("failures long ago", 0)
		for range 4 {
			b.push(broken)
		}
		want("five failures", 5*time.Second)
		if b.push(works) {
			t.Error("an open breaker lets a push through")
		}
		time.Sleep(2 * time.Second)
		want("two seconds later", 3*time.Second)

		time.Sleep(3*time.Second + 1)
		want("before the probe", 0)
		probe, ok := b.allow()
		want("during the probe", probeWait)
		if !ok || b.push(works) {
			t.Error("want one probe, and no more")
		}
		probe(broken)
		want("after a probe that failed", 5*time.Second)

		time.Sleep(5*time.Second + 1)
		b.push(gaveUp)
		want("after a probe that says nothing", 0)
		b.push(works)
		want("after a probe that worked", 0)
		for range 4 {
			b.push(broken)
		}
		want("few failures since", 0)

		b.trip() // for a pause, which is told apart
		want("tripped", 5*time.Second)
		time.Sleep(5*time.Second + 1)
		b.push(works)
		want("probed after the pause", 0)
		if len(changes) != 2 || !changes[0] || changes[1] {
			t.Errorf("it tells of %v, want open and closed once", changes)
		}
	})
}
