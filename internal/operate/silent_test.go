//go:build unix && e2e

package operate

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/worker/control"
)

// While a master of a Cluster is unreachable, or hangs, queries of all shards return the other
// shards' values and name the missing ones. An audit is then inconclusive and reports no loss.
func TestQueriesSkipUnreachableMaster(t *testing.T) {
	t.Parallel()
	const shards, users = 8, 64
	nodes := redistest.StartCluster(t, 3, redistest.AppendOnly(), redistest.Args("--cluster-require-full-coverage", "no"))
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{nodes[0].Addr(), nodes[1].Addr(), nodes[2].Addr()}, ContextTimeoutEnabled: true,
		ClusterStateReloadInterval: time.Second, MaxRedirects: 2, MaxRetries: -1, DialerRetries: 1, DialTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
	})
	t.Cleanup(func() { _ = client.Close() })
	records := store.NewRecords(client, "", 0)
	per := map[int]int64{} // notifications waiting in each shard, and as many dead letters
	producer := push.NewProducer(client, "", 0)
	for i := range users {
		n := &push.Notification{ID: fmt.Sprint("n-", i), App: "shop", User: fmt.Sprint("u-", i), Title: "t", Targets: toFCM}
		_, err := producer.Enqueue(t.Context(), n)
		must(t, err)
		at, err := records.Of(t.Context(), n.App, n.User)
		must(t, err)
		must(t, at.SetAside(t.Context(), &store.Letter{ID: fmt.Sprint("l-", i), State: store.Malformed, Reason: "not_json", At: time.Now(), Queue: push.Default.Queue()}))
		per[at.Number]++
	}
	if len(per) != shards {
		t.Fatalf("%v", per)
	}
	c := inspect.New(client, records, nil, limits.New(throttle.Policy{}, nil))
	var told atomic.Int64 // the logged losses
	ctx, stop := context.WithCancel(t.Context())
	var telling sync.WaitGroup
	telling.Go(func() {
		control.New(client, records, nil, limits.New(throttle.Policy{}, nil)).RecordLosses(ctx, slog.New(slog.NewTextHandler(counting{&told}, nil)), slog.New(slog.DiscardHandler))
	})
	defer func() {
		stop()
		if telling.Wait(); told.Load() > 0 {
			t.Errorf("%d losses are told", told.Load())
		}
	}()

	// faults runs all queries at once while these shards are unreachable, and returns the wrong
	// answers. On a slow machine other shards are silent too, so look repeats faults.
	faults := func(away []int) (all []string) {
		var mu sync.Mutex
		fault := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, fmt.Sprintf(format, args...))
		}
		want := int64(users)
		for _, n := range away {
			want -= per[n]
		}
		s := New(Options{Inspect: c, Records: records, Queue: client, Log: slog.New(slog.DiscardHandler)})
		o := s.As(root, "")
		var looks sync.WaitGroup
		looks.Go(func() {
			a, err := o.Audit(t.Context())
			balance := inspect.Balanced
			if away != nil {
				balance = inspect.Incomplete
			}
			if err != nil || !slices.Equal(a.Unread, away) || a.Balance() != balance || a.Accepted != want {
				fault("audit %+v, %v", a, err)
			}
		})
		looks.Go(func() {
			seen, err := o.Overview(t.Context())
			if err != nil || seen.Waiting != want || seen.NotRead(PartWaiting) != "" || seen.Letters.Count != want || len(seen.Queues) != 3 {
				fault("overview %+v, %v", seen, err)
				return
			}
			if len(seen.Redis) != len(nodes) || seen.NotRead(PartRedis) != "" {
				fault("the nodes are %+v, %+v", seen.Redis, seen.Unread)
			}
			for _, n := range seen.Redis {
				gone, there := slices.Equal(n.Shards, away), int64(0)
				for _, number := range n.Shards {
					there += per[number]
				}
				if (n.Error != "") != gone || len(n.Shards) == 0 || n.Waiting == nil || *n.Waiting != there || n.WaitingAt.IsZero() == gone || (n.Replicas == nil) != gone || !gone && *n.Replicas != 0 {
					fault("node %+v, and %d wait there", n, there)
				}
			}
			for _, part := range []Part{PartWaiting, PartLetters, PartQueues, PartOldestDue} {
				i := slices.IndexFunc(seen.Unread, func(u Unread) bool { return u.Part == part })
				if (i >= 0) != (away != nil) || i >= 0 && (!slices.Equal(seen.Unread[i].Shards, away) || !strings.Contains(seen.Unread[i].Problem, store.UnreachableText(away))) {
					fault("%s is told as %+v", part, seen.Unread)
				}
			}
		})
		looks.Go(func() {
			var n int64
			var past []int
			for cursor := ""; ; {
				page, err := o.Waiting(t.Context(), inspect.Selection{}, cursor)
				if err != nil {
					fault("%v", err)
					return
				}
				n += int64(len(page.Waiting))
				if past = append(past, page.Unread...); away == nil && page.CausesUnread {
					fault("the causes are not read")
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if n != want || !slices.Equal(past, away) {
				fault("%d wait, past %v", n, past)
			}
		})
		looks.Go(func() {
			var n int64
			past := map[int]bool{}
			for cursor := ""; ; {
				page, err := o.Letters(t.Context(), cursor, 20)
				if err != nil {
					fault("%v", err)
					return
				}
				n += int64(len(page.Letters))
				for _, shard := range page.Unread {
					past[shard] = true
				}
				if cursor = page.Next; cursor == "" {
					break
				}
			}
			if n != want || len(past) != len(away) {
				fault("%d letters, past %v", n, past)
			}
		})
		looks.Go(func() {
			if n, err := s.CountStored(t.Context()); err != nil || n != 2*want { // with as many dead letters
				fault("%d are counted, %v", n, err)
			}
		})
		looks.Wait()
		return all
	}
	look := func(away []int) {
		t.Helper()
		var wrong []string
		if !eventually.Within(eventually.Patience, func() bool { wrong = faults(away); return len(wrong) == 0 }) {
			t.Fatalf("%v away: %q", away, wrong)
		}
	}
	look(nil)
	for i, node := range nodes[:2] {
		var away []int
		for n, at := range shard.NewShards(client, "pushpace", shards) {
			if redistest.NodeOf(t, nodes, at.Key("counts")) == node {
				away = append(away, n)
			}
		}
		leave, back := node.Kill, node.Restart
		if i == 0 { // the master hangs
			leave, back = node.Pause, node.Resume
		}
		leave(t)
		look(away)
		back(t)
		look(nil)
	}
}

// counting counts the lines that a log writes.
type counting struct{ n *atomic.Int64 }

func (c counting) Write(line []byte) (int, error) {
	c.n.Add(1)
	return len(line), nil
}
