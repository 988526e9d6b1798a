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

// Each ref has its own result, and only a few are processed at once.
func TestEachReturnsAResultPerRef(t *testing.T) {
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

// A page holds at most MostIDs, and all refs of a user if they fit.
func TestPagesKeepUsersTogether(t *testing.T) {
	t.Parallel()
	var refs []push.Ref
	add := func(user string, n int) {
		for range n {
			refs = append(refs, push.Ref{ID: strconv.Itoa(len(refs)), App: "shop", User: user})
		}
	}
	add("b", MostIDs-1)
	add("c", 2)
	add("a", 1)
	add("d", 2*MostIDs)
	add("b", 1)
	var got []string
	last := map[string]int{}
	for _, page := range pages(refs) {
		users := map[string]int{}
		for _, ref := range page {
			users[ref.User]++
			n, _ := strconv.Atoi(ref.ID)
			if at, there := last[ref.User]; there && n < at {
				t.Errorf("%s of %s comes behind %d", ref.ID, ref.User, at)
			}
			last[ref.User] = n
		}
		got = append(got, fmt.Sprint(users))
	}
	want := []string{"map[a:1]", fmt.Sprintf("map[b:%d]", MostIDs), "map[c:2]", fmt.Sprintf("map[d:%d]", MostIDs), fmt.Sprintf("map[d:%d]", MostIDs)}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
