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

	"github.com/pushpace/pushpace/push"
)

// Each has its own answer, and no more than a few are under way at once.
func TestEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		underWay, peak := 0, 0
		refs := make([]push.Ref, MostIDs)
		want := make([]error, MostIDs)
		wrong := errors.New("wrong")
		for i := range refs {
			refs[i].ID = strconv.Itoa(i)
			if i%3 == 0 {
				want[i] = wrong
			}
		}
		got := of().each(t.Context(), CancelEach, refs, func(_ context.Context, ref push.Ref) error {
			mu.Lock()
			underWay++
			peak = max(peak, underWay)
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			underWay--
			mu.Unlock()
			if i, _ := strconv.Atoi(ref.ID); i%3 == 0 {
				return wrong
			}
			return nil
		})
		if !slices.Equal(got, want) || peak != idsAtOnce {
			t.Errorf("%d at once: %s", peak, fmt.Sprint(got))
		}
	})
}
