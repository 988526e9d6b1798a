package control

import (
	"errors"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

func (c *Control) notes(t *testing.T, l Loss) {
	t.Helper()
	c.NoteLoss(l)
	must(t, c.recordLoss(t.Context()))
}

// A confirmation is of the loss that was shown: one that came later, or that has grown, stays.
func TestConfirmLossAsShown(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	process := func() *Control {
		return New(client, store.NewRecords(client, "", 0), nil, limits.New(throttle.Policy{}, nil))
	}
	one, other := process(), process()
	recorded := func() *Loss {
		t.Helper()
		l, err := ReadLoss(t.Context(), client, "")
		must(t, err)
		return l
	}
	if _, err := one.ConfirmLoss(t.Context(), time.Now()); !errors.Is(err, ErrNoLoss) {
		t.Error(err)
	}
	one.notes(t, Loss{Pauses: 1})
	shown := recorded()
	other.notes(t, Loss{Pauses: 1})
	if l := recorded(); *l != *shown {
		t.Errorf("two processes notice the same: %+v, %+v", shown, l)
	}
	for name, more := range map[string]func(){
		"another kind of it": func() { other.notes(t, Loss{Overrides: 3}) },
		"a later loss":       func() { one.notes(t, Loss{Pauses: 1}) },
	} {
		shown := recorded()
		more()
		if _, err := one.ConfirmLoss(t.Context(), shown.At); !errors.Is(err, ErrMoreLost) || recorded() == nil {
			t.Errorf("%s: %v, recorded is %+v", name, err, recorded())
		}
	}
	shown = recorded()
	if l, err := one.ConfirmLoss(t.Context(), shown.At); err != nil || *l != *shown || l.Pauses != 2 || l.Overrides != 3 || recorded() != nil {
		t.Errorf("%+v, %v; shown was %+v", l, err, shown)
	}
}

func TestLossCountsWaitingNotifications(t *testing.T) {
	t.Parallel()
	sums := func(accepted, delivered, letters int64) store.Counts {
		return store.Counts{Accepted: accepted, Ended: map[push.State]int64{push.Delivered: delivered}, Letters: letters}
	}
	for name, c := range map[string]struct {
		before, now store.Counts
		waited      int64
		fewer       bool
	}{
		"first read":           {store.Counts{}, sums(1000, 219, 0), 0, false},
		"no change":            {sums(1000, 219, 3), sums(1000, 219, 3), 0, false},
		"more":                 {sums(1000, 219, 0), sums(1200, 1000, 0), 0, false},
		"dead letters purged":  {sums(1000, 219, 3), sums(1000, 219, 0), 0, false},
		"one requeued":         {sums(1000, 219, 3), sums(1000, 218, 2), 0, false},
		"empty":                {sums(1000, 219, 0), sums(0, 0, 0), 781, true},
		"empty, then new ones": {sums(1000, 219, 0), sums(40, 40, 0), 781, true},
		"empty, none waited":   {sums(1000, 1000, 0), sums(0, 0, 0), 0, true},
		"last ones missing":    {sums(1000, 219, 0), sums(990, 219, 0), 10, true},
		"most of them sent":    {sums(1000, 998, 0), sums(900, 900, 0), 2, true},
	} {
		if waited, fewer := lost(c.before, c.now); waited != c.waited || fewer != c.fewer {
			t.Errorf("%s: %d, %t", name, waited, fewer)
		}
	}
}
