package metrics

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

func held(n int64) Backlog {
	return Backlog{
		Counts: store.Counts{Accepted: n + 2, Ended: map[push.State]int64{push.Delivered: 2}, Booked: n - 1, Letters: 4, Dropped: map[store.Dropped]int64{
			{Kind: store.DeadLetters, App: "shop"}: 5, {Kind: store.OutcomeReports, App: "shop"}: 6, {Kind: store.DeadLetters}: 7, {Kind: store.DeadLetters, App: Other}: 1,
		}},
		Jobs:    map[string]map[store.JobState]int64{"pushpace-bulk": {store.JobPending: n, store.JobArchived: 0}},
		Workers: 3, Waits: []inspect.Share{{For: inspect.ForLimit, Count: n, Oldest: time.Now().Add(-2 * time.Hour)}},
	}
}

func TestBacklogMetricsShowRedisContent(t *testing.T) {
	t.Parallel()
	m := New(Sources{Backlog: func(context.Context) (Backlog, error) { return held(7), nil }})
	defer m.Close()
	text := scrape(t, m)
	hasLines(t, text,
		`pushpace_bookings 6`,
		`pushpace_dead_letters 4`,
		`pushpace_dropped_total{app="other",what="dead_letters"} 8`,
		`pushpace_dropped_total{app="shop",what="dead_letters"} 5`,
		`pushpace_dropped_total{app="shop",what="outcomes"} 6`,
		`pushpace_jobs{queue="pushpace-bulk",state="archived"} 0`,
		`pushpace_jobs{queue="pushpace-bulk",state="pending"} 7`,
		`pushpace_redis_up 1`,
		`pushpace_waiting 7`,
		`pushpace_workers 3`,
	)
	if !strings.Contains(text, `pushpace_oldest_waiting_seconds{for="limit"} 720`) { // and a bit
		t.Errorf("no age in\n%s", text)
	}
}

// Each master of a Cluster has a sample of each known value.
func TestClusterMastersHaveSamples(t *testing.T) {
	t.Parallel()
	of := func(nodes ...redisconn.Node) string {
		t.Helper()
		m := New(Sources{Backlog: func(context.Context) (Backlog, error) { return Backlog{Nodes: nodes}, nil }})
		defer m.Close()
		var lines []string
		for line := range strings.Lines(scrape(t, m)) {
			if strings.HasPrefix(line, "pushpace_redis_node_") {
				lines = append(lines, strings.TrimPrefix(line, "pushpace_redis_node_"))
			}
		}
		return strings.Join(lines, "")
	}
	if got := of(redisconn.Node{Address: "redis:6379", Replicas: new(1)}); got != "" {
		t.Errorf("of one server:\n%s", got)
	}
	got := of(
		redisconn.Node{Address: "a:6379", Shards: []int{0, 1}, Waiting: new(int64(7)), Replicas: new(1)},
		redisconn.Node{Address: "b:6379", Shards: []int{2}, Error: "EOF", Waiting: new(int64(9))}, redisconn.Node{Address: "c:6379", Shards: []int{}, Error: "EOF"},
	)
	if want := "replicas{node=\"a:6379\"} 1\nup{node=\"a:6379\"} 1\nup{node=\"b:6379\"} 0\nup{node=\"c:6379\"} 0\nwaiting{node=\"a:6379\"} 7\nwaiting{node=\"b:6379\"} 9\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Many scrapes read Redis once per backlogFresh.
func TestScrapesShareReadOfRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var reads int64
		b := newBacklog(func(context.Context) (Backlog, error) { reads++; return held(reads), nil }, nil)
		defer b.close()
		var scrapes sync.WaitGroup
		for range 20 {
			scrapes.Go(func() {
				if last, known, up := b.get(); !known || !up || last.Counts.Waiting() != 1 {
					t.Errorf("%+v, known %t, up %t", last, known, up)
				}
			})
		}
		scrapes.Wait()
		time.Sleep(backlogFresh)
		if last, _, _ := b.get(); last.Counts.Waiting() != 2 || reads != 2 {
			t.Errorf("%d are waiting after %d reads", last.Counts.Waiting(), reads)
		}
	})
}

// While Redis hangs, a scrape waits at most backlogWait, reports the fault, and repeats the last
// read until that is too old.
func TestScrapeEndsWhileRedisHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var hangs atomic.Bool
		b := newBacklog(func(ctx context.Context) (Backlog, error) {
			if hangs.Load() {
				<-ctx.Done()
				return Backlog{}, ctx.Err()
			}
			return held(1), nil
		}, nil)
		defer b.close()
		if _, known, up := b.get(); !known || !up {
			t.Fatalf("known %t, up %t", known, up)
		}
		hangs.Store(true)
		read := time.Now()
		for time.Since(read) < 2*backlogStale {
			time.Sleep(backlogFresh)
			began := time.Now()
			_, known, up := b.get()
			if took := time.Since(began); took > backlogWait {
				t.Errorf("a scrape takes %s", took)
			}
			if want := time.Since(read) < backlogStale; up || known != want {
				t.Errorf("after %s: known %t, up %t", time.Since(read), known, up)
			}
		}
		hangs.Store(false)
		time.Sleep(backlogTimeout + backlogFresh)
		if _, known, up := b.get(); !known || !up {
			t.Errorf("Redis is back: known %t, up %t", known, up)
		}
	})
}

func TestFailedReadMeansRedisIsDown(t *testing.T) {
	t.Parallel()
	b := newBacklog(func(context.Context) (Backlog, error) { return Backlog{}, errors.New("refused") }, nil)
	if _, known, up := b.get(); known || up {
		t.Errorf("known %t, up %t", known, up)
	}
	b.close()
	if _, known, up := b.get(); known || up {
		t.Errorf("closed: known %t, up %t", known, up)
	}
}
