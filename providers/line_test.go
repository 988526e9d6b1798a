package providers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestLineAdmitsOneUntilConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(256)
		leave, err := l.Enter(t.Context())
		must(t, err)
		entered := make(chan func(), 2)
		for range 2 {
			go func() {
				leave, err := l.Enter(t.Context())
				if err != nil {
					t.Error(err)
				}
				entered <- leave
			}()
		}
		synctest.Wait()
		if len(entered) != 0 {
			t.Fatal("another entered before there was a connection")
		}
		leave() // without a connection: the next push tries, alone
		synctest.Wait()
		if len(entered) != 1 {
			t.Fatalf("%d entered, want 1", len(entered))
		}
		l.Connected()
		l.Connected()
		synctest.Wait()
		if len(entered) != 2 {
			t.Fatalf("%d entered, want 2", len(entered))
		}
		(<-entered)()
		(<-entered)()
		if len(l.slots) != 0 || len(l.alone) != 0 {
			t.Errorf("%d slots are taken, %d are alone", len(l.slots), len(l.alone))
		}
	})
}

func TestLineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLine(256)
		l.Connected()
		for range 256 {
			if _, err := l.Enter(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		refused := make(chan error, 1)
		go func() {
			_, err := l.Enter(ctx)
			refused <- err
		}()
		synctest.Wait()
		if len(refused) != 0 {
			t.Fatal("one more than the bound entered")
		}
		cancel()
		if err := <-refused; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if _, err := l.Enter(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v with a context that has ended", err)
		}
	})
}
