package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Each has its own answer, and no more than a few are under way at once.
func TestEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		underWay, peak := 0, 0
		ids := make([]string, MostIDs)
		want := make([]error, MostIDs)
		wrong := errors.New("wrong")
		for i := range ids {
			ids[i] = strconv.Itoa(i)
			if i%3 == 0 {
				want[i] = wrong
			}
		}
		got := of().each(t.Context(), CancelEach, ids, func(_ context.Context, id string) error {
			mu.Lock()
			underWay++
			peak = max(peak, underWay)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			underWay--
			mu.Unlock()
			if i, _ := strconv.Atoi(id); i%3 == 0 {
				return wrong
			}
			return nil
		})
		if !slices.Equal(got, want) || peak != idsAtOnce {
			t.Errorf("%d at once: %s", peak, fmt.Sprint(got))
		}
	})
}
