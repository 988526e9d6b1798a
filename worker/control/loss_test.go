package control

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
)

// confirming returns two processes' controls, and a function that returns what is recorded.
func confirming(t *testing.T) (client redis.UniversalClient, one, other *Control, recorded func() *Loss) {
	client = redistest.One(t)
	records := store.NewRecords(client, "", 0)
	process := func() *Control { return New(client, records, nil, limits.New(throttle.Policy{}, nil)) }
	return client, process(), process(), func() *Loss {
		t.Helper()
		l, err := ReadLoss(t.Context(), client, "")
		must(t, err)
		return l
	}
}

func (c *Control) notes(t *testing.T, l Loss, whole time.Time) {
	t.Helper()
	c.NoteLoss(l, whole)
	must(t, c.recordLoss(t.Context()))
}

// A confirmation is of the loss that was shown: one that came later, or that has grown, stays.
func TestConfirmLossAsShown(t *testing.T) {
	t.Parallel()
	_, one, other, recorded := confirming(t)
	if _, err := one.ConfirmLoss(t.Context(), time.Now()); !errors.Is(err, ErrNoLoss) {
		t.Error(err)
	}
	before := time.Now()
	one.notes(t, Loss{Pauses: 1}, before)
	shown := recorded()
	other.notes(t, Loss{Pauses: 1}, before)
	if l := recorded(); *l != *shown {
		t.Errorf("two processes notice the same: %+v, %+v", shown, l)
	}
	for name, more := range map[string]func(){
		"another kind of it":           func() { other.notes(t, Loss{Overrides: 3}, before) },
		"a later loss":                 func() { one.notes(t, Loss{Pauses: 1}, time.Now()) },
		"a later one of ended records": func() { one.notes(t, Loss{}, time.Now().Add(time.Minute)) },
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

// A process that notices a confirmed loss late does not bring it back. It does record another kind
// of that loss, and a later loss.
func TestConfirmedLossStaysConfirmed(t *testing.T) {
	t.Parallel()
	client, one, other, recorded := confirming(t)
	confirm := func() {
		t.Helper()
		_, err := one.ConfirmLoss(t.Context(), recorded().At)
		must(t, err)
	}
	before := time.Now()
	one.notes(t, Loss{Notifications: 7, Pauses: 1}, before)
	confirm()
	other.notes(t, Loss{Notifications: 9}, before)
	other.notes(t, Loss{}, before)
	if l := recorded(); l != nil {
		t.Errorf("it is back: %+v", l)
	}
	other.notes(t, Loss{Pauses: 1, Overrides: 2}, before)
	if l := recorded(); l == nil || l.Overrides != 2 || l.Pauses != 0 {
		t.Errorf("overrides were not confirmed: %+v", l)
	}
	confirm()
	other.notes(t, Loss{Notifications: 9, Overrides: 2}, before)
	if l := recorded(); l != nil {
		t.Errorf("it is back: %+v", l)
	}
	if ttl := client.PTTL(t.Context(), "pushpace:losses").Val(); ttl <= 0 || ttl > confirmedFor {
		t.Errorf("a confirmed loss is kept for %s", ttl)
	}
	other.notes(t, Loss{Notifications: 2}, time.Now().Add(time.Minute))
	if l := recorded(); l == nil || l.Notifications != 2 || l.Pauses != 0 || l.Overrides != 0 {
		t.Errorf("a later loss: %+v", l)
	}
	if ttl := client.PTTL(t.Context(), "pushpace:losses").Val(); ttl > 0 {
		t.Errorf("it is kept for %s", ttl)
	}
}

// A worker that cannot read Redis for some time logs a loss that another one has recorded and an
// operator has confirmed, and does not record it again.
func TestLateWorkerKeepsConfirmation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, own := server.Client(t), server.Client(t)
	records := store.NewRecords(client, "", 0)
	counts := storetest.First(t, records).Key("counts")
	var away atomic.Bool
	var reads, scripts atomic.Int64
	redistest.Hook(own, redistest.Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		if away.Load() {
			return redistest.Fail(cmds, errors.New("away"))
		}
		err := next()
		for _, cmd := range cmds {
			switch args := cmd.Args(); {
			case redistest.Script(cmd):
				scripts.Add(1)
			case len(args) > 1 && args[1] == counts:
				reads.Add(1)
			}
		}
		return err
	}))
	process := func(client redis.UniversalClient) *Control {
		return New(client, store.NewRecords(client, "", 0), nil, limits.New(throttle.Policy{}, nil))
	}
	must(t, client.HSet(t.Context(), counts, "accepted", 5).Err())
	ctx, stop := context.WithCancel(t.Context())
	var late sync.WaitGroup
	late.Go(func() {
		process(own).RecordLosses(ctx, slog.New(slog.DiscardHandler), slog.New(slog.DiscardHandler))
	})
	defer late.Wait()
	defer stop()
	eventually.Holds(t, "it has read", func() bool { return reads.Load() > 0 })
	away.Store(true)
	before := time.Now()
	must(t, client.Del(t.Context(), counts).Err())
	other := process(client)
	other.notes(t, Loss{Notifications: 5}, before)
	shown, err := ReadLoss(t.Context(), client, "")
	must(t, err)
	_, err = other.ConfirmLoss(t.Context(), shown.At)
	must(t, err)
	away.Store(false)
	eventually.Holds(t, "it has noted the loss", func() bool { return scripts.Load() > 0 })
	if l, err := ReadLoss(t.Context(), client, ""); err != nil || l != nil {
		t.Errorf("it is back: %+v, %v", l, err)
	}
}
