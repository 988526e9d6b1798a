//go:build unix

package push_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// newProducer returns a producer on its own database.
func newProducer(t *testing.T) *push.Producer {
	t.Helper()
	return push.NewProducer(redistest.Own(t), "", 0)
}

// Enqueue and EnqueueAll reject a notification that is nil, expired or invalid.
func TestEnqueueRefusesInvalidNotification(t *testing.T) {
	t.Parallel()
	p := newProducer(t)
	to := []push.Target{{Platform: push.FCM, Token: "t"}}
	for name, test := range map[string]struct {
		n     *push.Notification
		field string
	}{
		"nil":           {nil, ""},
		"expired":       {&push.Notification{ID: "late", App: "a", User: "u", Targets: to, Title: "t", ExpiresAt: time.Now().Add(-time.Second)}, "/expires_at"},
		"over too soon": {&push.Notification{ID: "soon", App: "a", User: "u", Targets: to, Title: "t", TTL: push.Duration(10 * time.Second), NotBefore: time.Now().Add(time.Hour)}, "/ttl"},
		"silent":        {&push.Notification{ID: "mute", App: "a", User: "u", Targets: to}, "/push_type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, alone := p.Enqueue(t.Context(), test.n)
			for _, err := range []error{alone, p.EnqueueAll(t.Context(), []*push.Notification{test.n})[0].Err} {
				var faults push.Faults
				if !errors.As(err, &faults) || len(faults) != 1 || faults[0].Field != test.field {
					t.Errorf("%v, want one fault at %q", err, test.field)
				}
			}
		})
	}
}

// After a lost answer, a notification that is enqueued again after its expiry is known: it was accepted
// in time.
func TestRepeatedEnqueueAfterExpiryIsKnown(t *testing.T) {
	t.Parallel()
	p := newProducer(t)
	n := &push.Notification{
		ID: "code", App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t", ExpiresAt: time.Now().Add(time.Minute),
	}
	if _, err := p.Enqueue(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	n.ExpiresAt = time.Now().Add(-time.Second)
	receipt, err := p.Enqueue(t.Context(), n)
	if err != nil || !receipt.Known {
		t.Errorf("%+v, %v", receipt, err)
	}
	if r := p.EnqueueAll(t.Context(), []*push.Notification{n})[0]; r.Err != nil || !r.Known {
		t.Errorf("%+v", r)
	}
}
