package api

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/overview"
)

// However many watch, one read is under way, however slow Redis is, and what it
// has read is fresh from its end on. Who leaves takes nobody's read away.
func TestWatchersShareARead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var l lookout
		reads := 0
		var fails error
		read := func(ctx context.Context) (*overview.Overview, error) {
			reads++
			o := &overview.Overview{At: time.Now()}
			select {
			case <-time.After(2 * time.Second):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return o, fails
		}
		watch := func(ctx context.Context) error {
			_, err := l.read(ctx, 5*time.Second, read)
			return err
		}
		var watchers sync.WaitGroup
		impatient, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		watchers.Go(func() {
			if err := watch(impatient); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
		synctest.Wait() // it asks first
		for range 20 {
			watchers.Go(func() {
				if err := watch(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		watchers.Wait()
		if err := watch(t.Context()); err != nil || reads != 1 {
			t.Errorf("%d reads, %v", reads, err)
		}
		time.Sleep(overviewFresh)
		fails = errors.New("refused")
		began := time.Now()
		for range 20 {
			watchers.Go(func() {
				if err := watch(t.Context()); err != fails {
					t.Error(err)
				}
			})
		}
		watchers.Wait()
		if took := time.Since(began); reads != 2 || took != 2*time.Second {
			t.Errorf("%d reads, the last took %s", reads, took)
		}
	})
}
