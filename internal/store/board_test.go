package store_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

var (
	boardQueue  = push.Default.Queue()
	boardRoutes = []string{"a/fcm", "b/fcm"}
	boardUsers  = []string{push.UserMark("a", "u", ""), push.UserMark("b", "u", "")}
	boardNames  = []string{store.PauseName(`["a","",""]`), store.QuotaName("fcm/x")}
)

// A boardRig reads the jobs of one queue of a shard.
type boardRig struct {
	t       rapid.TB
	ctx     context.Context
	client  redis.UniversalClient
	records *store.Records
	at      *store.Shard
	ids     []string // of all jobs, gone ones too
}

// newBoardRig empties the database.
func newBoardRig(t rapid.TB, of *testing.T, client redis.UniversalClient) boardRig {
	ctx, err := of.Context(), error(nil)
	flush := func(ctx context.Context, c *redis.Client) error { return c.FlushDB(ctx).Err() }
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, flush)
	} else {
		err = flush(ctx, client.(*redis.Client))
	}
	records := store.NewRecords(client, "", 0).WithShards(1)
	all, failed := records.All(ctx)
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	return boardRig{t: t, ctx: ctx, client: client, records: records, at: all[0]}
}

func (r *boardRig) must(err error) {
	if err != nil {
		r.t.Helper()
		r.t.Fatal(err)
	}
}

func (r *boardRig) key(name string) string { return r.at.QueueKey(boardQueue, name) }

// payload returns the job of a notification of that app.
func (r *boardRig) payload(id, app string, notBefore time.Time) []byte {
	n := &push.Notification{ID: id, App: app, User: "u", Category: "c", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t", NotBefore: notBefore}
	payload, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
	r.must(err)
	return payload
}

// ends runs the script for the job that add adds.
func (r *boardRig) ends(j *store.Job, add func(*store.Ends)) error {
	e := r.at.NewEnds(j.Queue)
	add(e)
	cmd := e.Command(r.ctx)
	_ = r.client.Process(r.ctx, cmd)
	errs, err := e.Read(r.ctx, cmd)
	if err == nil {
		err = errs[0]
	}
	return err
}

// pass makes a delayed or parked job due.
func (r *boardRig) pass(id string) {
	at := strings.Replace(r.read().place(id), "parked", "retry", 1)
	if at == "scheduled" || at == "retry" {
		r.must(r.client.ZAdd(r.ctx, r.key(at), redis.Z{Score: 1, Member: id}).Err())
		r.must(r.client.ZAdd(r.ctx, r.key("due"), redis.Z{Score: 1, Member: id}).Err())
	}
}

// silence sets the term's last heartbeat to 1970.
func (r *boardRig) silence(term string) error {
	return r.client.ZAdd(r.ctx, r.at.Key("signs"), redis.Z{Score: 1, Member: term}).Err()
}

// A board is the whole state of the jobs in Redis.
type board struct {
	lists          map[string][]string           // pending, active
	sets           map[string]map[string]float64 // scheduled, retry, due, parked:ROUTE
	routes         []string                      // with parked jobs
	waits          []string                      // IDs of users' notifications that wait
	tasks, records map[string]map[string]string  // by ID
	counts         store.Counts
}

func (r *boardRig) read() *board {
	pipe := r.client.Pipeline()
	lists, sets := map[string]*redis.StringSliceCmd{}, map[string]*redis.ZSliceCmd{}
	for _, name := range []string{"pending", "active"} {
		lists[name] = pipe.LRange(r.ctx, r.key(name), 0, -1)
	}
	names := slices.Concat(boardRoutes, boardUsers, boardNames)
	keys := []string{"scheduled", "retry", "due"}
	for i, name := range names {
		keys = append(keys, "parked:"+name)
		for _, other := range names[:i] {
			keys = append(keys, "parked:"+store.ParkName([]string{name, other}))
		}
	}
	for _, name := range keys {
		sets[name] = pipe.ZRangeWithScores(r.ctx, r.key(name), 0, -1)
	}
	routes, counts := pipe.SMembers(r.ctx, r.key("parked")), r.at.CountsOn(r.ctx, pipe)
	waits := []*redis.StringSliceCmd{pipe.ZRange(r.ctx, r.at.Key("waits:a\nu"), 0, -1), pipe.ZRange(r.ctx, r.at.Key("waits:b\nu"), 0, -1)}
	tasks, records := map[string]*redis.MapStringStringCmd{}, map[string]*redis.MapStringStringCmd{}
	for _, id := range r.ids {
		tasks[id], records[id] = pipe.HGetAll(r.ctx, r.key("t:"+id)), pipe.HGetAll(r.ctx, r.at.Key("id:"+id))
	}
	_, err := pipe.Exec(r.ctx)
	r.must(err)
	b := &board{lists: map[string][]string{}, sets: map[string]map[string]float64{}, tasks: map[string]map[string]string{}, records: map[string]map[string]string{}}
	for name, list := range lists {
		b.lists[name] = list.Val()
	}
	for name, set := range sets {
		b.sets[name] = map[string]float64{}
		for _, z := range set.Val() {
			b.sets[name][z.Member.(string)] = z.Score
		}
	}
	for _, id := range r.ids {
		b.tasks[id], b.records[id] = tasks[id].Val(), records[id].Val()
	}
	b.routes = slices.Sorted(slices.Values(routes.Val()))
	b.waits = slices.Sorted(slices.Values(slices.Concat(waits[0].Val(), waits[1].Val())))
	b.counts, err = counts()
	r.must(err)
	maps.DeleteFunc(b.counts.Ended, func(_ store.State, n int64) bool { return n == 0 })
	return b
}

// place names the list or set with the job; "" for none, several for a duplicated job. A parked job
// is in the set retry.
func (b *board) place(id string) string {
	var all []string
	for _, name := range []string{"pending", "active"} {
		for _, one := range b.lists[name] {
			if one == id {
				all = append(all, name)
			}
		}
	}
	for _, name := range []string{"scheduled", "retry"} {
		_, there := b.sets[name][id]
		if _, parked := b.tasks[id]["parked"]; there && parked && name == "retry" {
			name = "parked"
		}
		if there {
			all = append(all, name)
		}
	}
	return strings.Join(all, "+")
}

// claimed reports whether the job is still in the pull's claim.
func (b *board) claimed(j *store.Job) bool { return b.tasks[j.ID]["worker"] == j.Claim }

// fault describes the first inconsistency of the job; "" for none. An entry of due matters only for
// a delayed job.
func (b *board) fault(id string) string {
	at, task := b.place(id), b.tasks[id]
	score, delayed := b.sets[at][id]
	due, dated := b.sets["due"][id]
	route, place, _ := strings.Cut(task["parked"], "\n")
	_, queued := b.sets["parked:"+route][place]
	switch {
	case task["state"] != strings.Replace(at, "parked", "retry", 1):
		return fmt.Sprintf("is in %q, and its state is %q", at, task["state"])
	case slices.Contains(b.waits, id) != (b.records[id]["state"] == string(store.Waiting)):
		return fmt.Sprintf("is %q, and those that wait are %q", b.records[id]["state"], b.waits)
	case at == "" && (len(task) > 0 || b.records[id]["state"] == string(store.Waiting)):
		return "has a task or waits, and is in no place"
	case (task["worker"] != "") != (at == "active"):
		return fmt.Sprintf("is in %q, and in the claim %q", at, task["worker"])
	case at == "parked" && !(queued && slices.Contains(b.routes, route)):
		return "is parked, and not among the parked jobs of " + route
	case delayed && dated && math.Ceil(due/1e6) != score:
		return fmt.Sprintf("is due at %.6f, and in %s at %.0f", due/1e6, at, score)
	}
	return ""
}
