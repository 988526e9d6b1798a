package store_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
)

// However many older ones there are, each is named once, a page at a time, to
// whoever is the newest, and again to one that broke off.
func TestCollapseInPages(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		ctx, records, start := t.Context(), store.NewRecords(client, "", 0).WithShards(1), time.Now()
		claim := func(i int, done []string) (bool, []string) {
			t.Helper()
			newest, older, err := storetest.First(t, records).Collapse(ctx, store.CollapseKey{App: "shop", User: "u", Key: "k"}, fmt.Sprintf("n %d", i), start.Add(time.Duration(i)*time.Millisecond), 0, done)
			if err != nil {
				t.Fatal(err)
			}
			return newest, older
		}
		const n, forgotten = 150, 5 * time.Second
		named := map[string]int{}
		for i := range n { // each takes a page and breaks off
			newest, older := claim(i, nil)
			if !newest || len(older) > 100 {
				t.Fatalf("%d: %t, %d older ones at once", i, newest, len(older))
			}
			for _, id := range older {
				named[id]++
			}
		}
		if len(named) != n-1 {
			t.Errorf("%d were named, want %d", len(named), n-1)
		}
		inTime := time.Since(start) < forgotten // else those that broke off are
		for id, times := range named {
			if times != 1 && inTime {
				t.Errorf("%s was named %d times", id, times)
			}
		}
		_, again := claim(n-1, nil)
		if len(again) != 100 {
			t.Errorf("one that broke off is answered %d", len(again))
		}
		if _, next := claim(n-1, again); slices.ContainsFunc(next, func(id string) bool { return slices.Contains(again, id) }) {
			t.Error("what is done is named again")
		}
		if newest, older := claim(5, nil); newest || len(older) != 0 {
			t.Errorf("an old one is the newest: %v", older)
		}
	})
}
