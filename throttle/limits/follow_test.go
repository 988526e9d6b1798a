package limits

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/redistest"
)

// An override applies within a second.
func TestOverrideAppliesWithinSecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		client := redistest.InBubble(t)
		o, l := NewOverrides(client, "", 0), New(per(time.Second), nil)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			o.Follow(ctx, l, nil)
		}()
		for i := range 20 {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond)
			period := time.Minute + time.Duration(i)*time.Second
			if err := o.Set(t.Context(), Override{Level: Level{User: "u"}, Policy: per(period), By: "ann"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if got := l.Scopes("shop", "u", "")[0].Policy.Rates[0].Period; got != period {
				t.Errorf("after a second %s is in force, want %s", got, period)
			}
		}
		stop()
		<-done
	})
}
