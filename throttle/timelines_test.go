package throttle_test

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// A grant is an admission that a caller has heard of.
type grant struct {
	user, id string
	category bool
	at       int64 // µs
}

// judgeTimelines holds what Redis has, and what the callers were told, against
// the limits.
func judgeTimelines(t *testing.T, client redis.UniversalClient, prefix string, general, category throttle.Policy, log []grant) {
	t.Helper()
	type event struct {
		id string
		at int64
	}
	told := map[string][]event{} // by key
	for _, g := range log {
		key := prefix + ":{" + g.user + "}:sent"
		told[key] = append(told[key], event{g.id, g.at})
		if g.category {
			told[key+":news"] = append(told[key+":news"], event{g.id, g.at})
		}
	}
	if len(told) == 0 {
		t.Fatal("nothing was granted")
	}
	for key, events := range told {
		entries, err := client.ZRangeWithScores(t.Context(), key, 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		stamps := map[string]int64{}
		for _, e := range entries {
			stamps[e.Member.(string)] = int64(e.Score)
		}
		last := map[string]int64{}
		for _, e := range events {
			last[e.id] = max(last[e.id], e.at)
		}
		for id, at := range last {
			if stamps[id] < at {
				t.Errorf("%s has %s at %d; it was granted at %d", key, id, stamps[id], at)
			}
			delete(stamps, id)
		}
		if len(stamps) > 0 {
			t.Errorf("%s has what nobody was granted: %v", key, stamps)
		}
		for _, e := range entries {
			events = append(events, event{e.Member.(string), int64(e.Score)})
		}
		policy := general
		if strings.HasSuffix(key, ":news") {
			policy = category
		}
		rules := append([]throttle.Rate{{Count: 1, Period: policy.MinGap}}, policy.Rates...)
		for _, first := range events {
			for _, rule := range rules {
				window := map[string]int64{}
				for _, e := range events {
					if e.at >= first.at && e.at < first.at+rule.Period.Microseconds()-1000 {
						window[e.id] = e.at
					}
				}
				if len(window) > rule.Count {
					t.Errorf("%s: more than %d in %v: %v", key, rule.Count, rule.Period, window)
				}
			}
		}
	}
}

// judgeLeaks checks that every key expires, and that nobody waits any more.
func judgeLeaks(t *testing.T, client redis.UniversalClient, pattern string) {
	t.Helper()
	keys, err := client.Keys(t.Context(), pattern).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if ttl, err := client.PTTL(t.Context(), key).Result(); err != nil || ttl <= 0 {
			t.Errorf("%s expires in %v, %v", key, ttl, err)
		}
		if !strings.Contains(key, "}:sent") {
			t.Errorf("%s is left: %v", key, client.ZRange(t.Context(), key, 0, -1).Val())
		}
	}
}
