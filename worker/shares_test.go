package worker

import (
	"github.com/pushpace/pushpace/internal/store"
	"maps"
	"testing"
)

// What comes back is shared out among the shards by what they hold, the highest priority first.
func TestShares(t *testing.T) {
	t.Parallel()
	order := []int{2, 0, 1}
	for name, c := range map[string]struct {
		n    int
		held map[int]store.Held
		want map[int]int
	}{
		"none":                       {0, map[int]store.Held{0: {1}}, map[int]int{}},
		"one shard":                  {5, map[int]store.Held{0: {3, 3, 3}}, map[int]int{0: 5}},
		"fewer than are to":          {50, map[int]store.Held{0: {3, 3, 3}, 1: {0, 0, 1}}, map[int]int{0: 9, 1: 1}},
		"the highest priority":       {4, map[int]store.Held{0: {0, 100}, 1: {4}}, map[int]int{1: 4}},
		"and then the next":          {6, map[int]store.Held{0: {0, 100}, 1: {4}}, map[int]int{0: 2, 1: 4}},
		"by what they hold":          {10, map[int]store.Held{0: {30}, 1: {60}, 2: {10}}, map[int]int{0: 3, 1: 6, 2: 1}},
		"the next one in order":      {1, map[int]store.Held{0: {5}, 1: {5}, 2: {5}}, map[int]int{2: 1}},
		"the next two in order":      {2, map[int]store.Held{0: {5}, 1: {5}, 2: {5}}, map[int]int{2: 1, 0: 1}},
		"not the one that has none":  {1, map[int]store.Held{0: {0, 5}, 1: {0, 5}, 2: {}}, map[int]int{0: 1}},
		"all of three, unevenly":     {7, map[int]store.Held{0: {2, 1}, 1: {2}, 2: {2, 9}}, map[int]int{0: 2, 1: 2, 2: 3}},
		"no more than a shard holds": {2, map[int]store.Held{0: {1}, 1: {1}, 2: {1}}, map[int]int{2: 1, 0: 1}},
	} {
		if got := shares(c.n, c.held, order); !maps.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
