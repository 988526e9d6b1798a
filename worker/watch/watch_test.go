package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/pause"
)

func TestMain(m *testing.M) {
	redistest.Parallel()
	goleak.VerifyTestMain(m, redistest.Dialing())
}

// quick are times that a test has.
var quick = times{life: time.Hour, renew: 50 * time.Millisecond, check: 100 * time.Millisecond, keep: time.Hour}

func newWatcher(t *testing.T, client redis.UniversalClient, prefix string, times times) *Watcher {
	w := NewWatcher(client, prefix)
	w.times = times
	t.Cleanup(w.Close)
	return w
}

func look(t *testing.T, w *Watcher) Seen {
	t.Helper()
	seen, err := w.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

// listeners is how many connections listen to the key's channel.
func listeners(t *testing.T, client redis.UniversalClient, prefix string) (channel string, n int64) {
	t.Helper()
	channel = client.Get(t.Context(), prefix+":{pauses}:watched").Val()
	return channel, client.PubSubNumSub(t.Context(), channel).Val()[channel]
}

func told(events ...Event) string {
	f := NewFeed()
	f.Watch(true)
	for _, e := range events {
		f.Tell(e)
	}
	return f.Take()
}

// However much happens, a bounded part is told, and the rest counted; many deliveries
// do not hide what else happens.
func TestFeedIsBounded(t *testing.T) {
	t.Parallel()
	f := NewFeed()
	if f.Watched() || f.Take() != "" {
		t.Error("it is watched from the beginning, or has something to tell")
	}
	f.Watch(true)
	for range 5000 {
		f.Tell(Event{State: push.Delivered})
	}
	for range 6 {
		f.Tell(Event{State: push.Waiting})
	}
	var b batch
	if err := json.Unmarshal([]byte(f.Take()), &b); err != nil {
		t.Fatal(err)
	}
	count := map[push.State]int{}
	for _, e := range b.Events {
		count[e.State]++
	}
	if count[push.Delivered] != mostDelivered || count[push.Waiting] != 6 || b.Left != 5000-mostDelivered {
		t.Errorf("told %v, and that there were %d more", count, b.Left)
	}
	if text := f.Take(); text != "" {
		t.Errorf("told twice: %s", text)
	}
	f.Tell(Event{State: push.Delivered})
	if f.Watch(false); f.Watched() || f.Take() != "" {
		t.Error("something is left of a watch that is over")
	}
}

// Nothing is said on the channel while nobody watches, nor while nothing happens.
func TestNothingIsToldUnwatched(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	store := pause.NewStore(client, "")
	published := func() string {
		for line := range strings.Lines(client.Info(t.Context(), "commandstats").Val()) {
			if calls, found := strings.CutPrefix(line, "cmdstat_publish:"); found {
				calls, _, _ = strings.Cut(calls, ",")
				return calls
			}
		}
		return "calls=0"
	}
	for range 3 {
		if in, err := store.Tell(t.Context(), told(Event{ID: "a"})); err != nil || in.Watched {
			t.Fatalf("%+v, %v", in, err)
		}
	}
	if got := published(); got != "calls=0" {
		t.Errorf("nobody watches: %s", got)
	}
	if _, err := store.Watch(t.Context(), "c", time.Minute); err != nil {
		t.Fatal(err)
	}
	before := published()
	if in, err := store.Tell(t.Context(), ""); err != nil || !in.Watched || published() != before {
		t.Errorf("nothing has happened: %v, %s", err, published())
	}
	if _, err := store.Tell(t.Context(), told(Event{ID: "a"}, Event{ID: "b"})); err != nil || before != "calls=1" || published() != "calls=2" {
		t.Errorf("two events, told at once: %v, %s, then %s", err, before, published())
	}
}

// Who looks sees what all workers tell, by one subscription, which ends with the last
// look; another process sees it too, on the same channel.
func TestLook(t *testing.T) {
	redistest.OverAll(t, func(t *testing.T, client redis.UniversalClient, prefix string) {
		store := pause.NewStore(client, prefix)
		short := quick
		short.life, short.keep = time.Second, 0
		first, second := newWatcher(t, client, prefix, quick), newWatcher(t, client, prefix, short)
		for range 10 {
			if seen := look(t, first); len(seen.Events) > 0 || time.Since(seen.Since) > time.Minute {
				t.Errorf("before anything has happened: %+v", seen)
			}
		}
		look(t, second)
		eventually.Holds(t, "each listens once", func() bool {
			_, n := listeners(t, client, prefix) // at any node of a Cluster
			return n == 2
		})
		if ttl := client.PTTL(t.Context(), prefix+":{pauses}:watched").Val(); ttl <= 0 || ttl > quick.life {
			t.Errorf("the workers tell for %s", ttl)
		}
		want := Event{
			At: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC), State: push.Waiting, ID: "order-17", App: "shop", User: "ada", Category: "news", Priority: push.Critical,
			Platforms: []push.Platform{push.APNs}, For: "limit", Until: time.Date(2026, 11, 22, 13, 0, 0, 0, time.UTC), Reason: "all 10/1h",
		}
		client.Publish(t.Context(), client.Get(t.Context(), prefix+":{pauses}:watched").Val(), "none of ours")
		tell := func(w *Watcher) {
			t.Helper()
			eventually.Holds(t, "the event is seen", func() bool {
				if _, err := store.Tell(t.Context(), told(want)); err != nil {
					t.Fatal(err)
				}
				events := look(t, w).Events
				return len(events) > 0 && fmt.Sprint(events[0]) == fmt.Sprint(want)
			})
		}
		tell(first)
		tell(second)
		eventually.Holds(t, "the second one is gone", func() bool { return !second.watches() })
		tell(first)
		if seen := look(t, second); len(seen.Events) > 0 {
			t.Error("a new watch shows what an old one has seen")
		}
		tell(second)
	})
}

// Who looks again soon sees what was told in between, though the watch has ended.
func TestLookAgain(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Shared(t).Client(t), redistest.Prefix()
	short := quick
	short.life = time.Second
	w, store := newWatcher(t, client, prefix, short), pause.NewStore(client, prefix)
	eventually.Holds(t, "an event is seen", func() bool {
		began := look(t, w)
		_, _ = store.Tell(t.Context(), told(Event{ID: "a"}))
		return len(began.Events) > 0
	})
	eventually.Holds(t, "the watch has ended", func() bool { return !w.watches() })
	eventually.Holds(t, "nobody listens", func() bool { _, n := listeners(t, client, prefix); return n == 0 })
	if seen := look(t, w); len(seen.Events) == 0 {
		t.Error("what was seen is forgotten")
	}
	if !w.watches() {
		t.Error("it does not watch again")
	}
}

func (w *Watcher) watches() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.channel != ""
}

// What is kept is bounded, and what was not told is added up.
func TestKept(t *testing.T) {
	t.Parallel()
	w := NewWatcher(nil, "")
	for i := range 100 {
		text, _ := json.Marshal(batch{Events: slices.Repeat([]Event{{ID: fmt.Sprint(i)}}, most), Left: 3})
		w.take(string(text))
	}
	for _, text := range []string{"", "{", `{"left":1,"events":[{"at":"x"}]}`, `{"left":9,"x":"` + strings.Repeat("x", maxBatch) + `"}`} {
		w.take(text)
	}
	if s := w.seen; len(s.Events) != kept || s.Events[kept-1].ID != "99" || s.Left != 300 {
		t.Errorf("%d events, the last one %+v, and %d more", len(s.Events), s.Events[len(s.Events)-1], s.Left)
	}
}

// A process that has crashed has the workers tell for less than 10 s more.
func TestACrashedWatcher(t *testing.T) {
	t.Parallel()
	client := redistest.Shared(t).Client(t)
	prefix := redistest.Prefix()
	look(t, newWatcher(t, client, prefix, usual))
	if ttl := client.PTTL(t.Context(), prefix+":{pauses}:watched").Val(); ttl <= 0 || ttl > 9*time.Second {
		t.Errorf("the workers tell for %s", ttl)
	}
}

// A subscriber that reads nothing holds up neither those who tell nor another one.
func TestASubscriberThatDoesNotRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Args("--client-output-buffer-limit", "pubsub 1mb 0 0"))
	client := server.Client(t)
	w, store := newWatcher(t, client, "", usual), pause.NewStore(client, "")
	look(t, w)
	channel, _ := listeners(t, client, "pushpace")
	dead, err := net.Dial("tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	fmt.Fprintf(dead, "SUBSCRIBE %s\r\n", channel)
	eventually.Holds(t, "both listen", func() bool { _, n := listeners(t, client, "pushpace"); return n == 2 })
	large := told(slices.Repeat([]Event{{ID: strings.Repeat("x", 2000)}}, most)...)
	eventually.Holds(t, "Redis lets it go", func() bool {
		if _, err := store.Tell(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		_, n := listeners(t, client, "pushpace")
		return n == 1
	})
	eventually.Holds(t, "the other one has seen it", func() bool { return len(look(t, w).Events) > 0 })
}

// While Redis is away, who looks is told; afterwards the watch goes on.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client(t)
	w, store := newWatcher(t, client, "", quick), pause.NewStore(client, "")
	look(t, w)
	server.Kill(t)
	eventually.Holds(t, "it is told", func() bool { _, err := w.Look(t.Context()); return err != nil })
	if _, err := newWatcher(t, client, "", usual).Look(t.Context()); err == nil {
		t.Error("who begins to look is not told")
	}
	server.Restart(t)
	eventually.Holds(t, "events are seen again", func() bool {
		_, _ = store.Tell(t.Context(), told(Event{ID: "a"}))
		seen, err := w.Look(t.Context())
		return err == nil && len(seen.Events) > 0
	})
}

// A client that is closed before the watch ends it.
func TestAClosedClient(t *testing.T) {
	t.Parallel()
	client, prefix := redis.NewClient(redistest.Shared(t).Options()), redistest.Prefix()
	w := newWatcher(t, client, prefix, quick)
	look(t, w)
	eventually.Holds(t, "it listens", func() bool { _, n := listeners(t, client, prefix); return n == 1 })
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	w.following.Wait()
}

// A failover whose old master hangs leaves no watch behind.
func TestFailover(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	sentinel := redistest.StartSentinel(t, master)
	replica := redistest.SentinelReplica(t, master, sentinel)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.MasterName, SentinelAddrs: []string{sentinel.Addr()}, ContextTimeoutEnabled: true, ReadTimeout: time.Second, DialTimeout: time.Second,
	})
	defer client.Close()
	w, store := NewWatcher(client, ""), pause.NewStore(client, "")
	w.times = quick
	defer w.Close()
	look(t, w)
	redistest.FailOver(t, master, replica)
	eventually.Holds(t, "events of the new master are seen", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _ = store.Tell(ctx, told(Event{ID: "a"}))
		seen, err := w.Look(ctx)
		return err == nil && len(seen.Events) > 0
	})
}
