package store_test

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// A heldRig has jobs that have returned to a shard's queues.
type heldRig struct {
	t      *testing.T
	client redis.UniversalClient
	*store.Shard
}

const by = "shop/apns"

func newHeldRig(t *testing.T, client redis.UniversalClient) *heldRig {
	return &heldRig{t, client, storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))}
}

// state has asynq say where the job is: it is in retry if it has returned.
func (r *heldRig) state(p push.Priority, id, state string) {
	r.t.Helper()
	ctx, queue := context.Background(), p.Queue()
	err := r.client.HSet(ctx, r.QueueKey(queue, "t:"+id), "state", state).Err()
	if err == nil && state == "retry" {
		err = r.client.ZAdd(ctx, r.QueueKey(queue, "retry"), redis.Z{Score: 4e9, Member: id}).Err()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *heldRig) hold(p push.Priority, at time.Time, ids ...string) {
	r.t.Helper()
	for _, id := range ids {
		r.state(p, id, "retry")
	}
	if err := r.Hold(r.t.Context(), by, p.Queue(), at, ids...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *heldRig) wake(n int, which store.Which, left store.Held) []string {
	r.t.Helper()
	woken, err := r.WakeHeld(r.t.Context(), by, n, which)
	if err != nil || woken.Left != left {
		r.t.Errorf("left %v, %v; want %v", woken.Left, err, left)
	}
	all, err := r.Held(r.t.Context())
	if its, some := all[by]; err != nil || its != left || some != (left.All() > 0) {
		r.t.Errorf("held %v, %v; want %v", all, err, left)
	}
	return woken.IDs
}

var noon = time.UnixMilli(1_795_219_200_123)

// The first are those of the highest priority, and then those accepted first. store.AnyHeld one comes
// sooner or later.
func TestWhichOfTheHeld(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		r := newHeldRig(t, client)
		add := func() {
			for i, p := range []push.Priority{push.Bulk, push.Default, push.Critical} {
				r.hold(p, noon.Add(time.Hour), string(p)+" late")
				r.hold(p, noon.Add(-time.Duration(i)), string(p)+" early")
			}
		}
		add()
		r.wake(0, store.FirstHeld, store.Held{2, 2, 2})
		got := append(r.wake(4, store.FirstHeld, store.Held{0, 0, 2}), r.wake(4, store.FirstHeld, store.Held{})...)
		if want := []string{"critical early", "critical late", "default early", "default late", "bulk early", "bulk late"}; !slices.Equal(got, want) {
			t.Errorf("woken %q", got)
		}
		for _, p := range []push.Priority{push.Critical, push.Default, push.Bulk} {
			pending := r.client.LRange(t.Context(), r.QueueKey(p.Queue(), "pending"), 0, -1).Val()
			state := r.client.HGet(t.Context(), r.QueueKey(p.Queue(), "t:"+string(p)+" early"), "state").Val()
			if !slices.Equal(pending, []string{string(p) + " late", string(p) + " early"}) || state != "pending" {
				t.Errorf("%s: %q are due; state %s", p, pending, state)
			}
		}
		drawn := map[string]bool{}
		for range 60 {
			add()
			woken, err := r.WakeHeld(t.Context(), by, 1, store.AnyHeld)
			if err != nil || len(woken.IDs) != 1 || woken.Left.All() != 5 {
				t.Fatalf("woken %+v, %v", woken, err)
			}
			rank, _, _ := strings.Cut(woken.IDs[0], " ")
			drawn[rank] = true
		}
		if len(drawn) != 3 {
			t.Errorf("drawn of %v", drawn)
		}
		if got := r.wake(7, store.AnyHeld, store.Held{}); len(got) != 5 {
			t.Errorf("woken %q", got)
		}
	})
}

// A job that a worker has in hand stays held, and keeps nobody back; one that is due already,
// or has left the queue, is held no longer.
func TestHeldJobsInHand(t *testing.T) {
	t.Parallel()
	r := newHeldRig(t, redistest.One(t))
	r.hold(push.Default, noon, "in hand", "due", "gone")
	r.hold(push.Default, noon.Add(time.Second), "asleep")
	for id, state := range map[string]string{"in hand": "active", "due": "pending", "gone": ""} {
		r.client.ZRem(t.Context(), r.QueueKey("pushpace-default", "retry"), id)
		r.state(push.Default, id, state)
	}
	r.client.Del(t.Context(), r.QueueKey("pushpace-default", "t:gone"))
	if got := r.wake(1, store.FirstHeld, store.Held{0, 1, 0}); !slices.Equal(got, []string{"asleep"}) {
		t.Errorf("woken %q", got)
	}
	if got := r.wake(9, store.FirstHeld, store.Held{0, 1, 0}); len(got) > 0 {
		t.Errorf("woken %q", got)
	}
	r.state(push.Default, "in hand", "retry")
	if got := r.wake(9, store.FirstHeld, store.Held{}); !slices.Equal(got, []string{"in hand"}) {
		t.Errorf("woken %q", got)
	}
}

// Those that have ended are gone with those that are woken, and a name whose jobs are gone
// holds none.
func TestHeldJobsThatEnded(t *testing.T) {
	t.Parallel()
	r := newHeldRig(t, redistest.One(t))
	for i := range 120 {
		if err := r.Hold(t.Context(), by, push.Default.Queue(), noon, "ended-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	r.hold(push.Default, noon.Add(time.Second), "lives")
	woken, gone := []string(nil), 0
	for {
		w, err := r.WakeHeld(t.Context(), by, 50, store.FirstHeld)
		if err != nil {
			t.Fatal(err)
		}
		if woken, gone = append(woken, w.IDs...), gone+w.Gone; w.Gone == 0 {
			break
		}
	}
	if !slices.Equal(woken, []string{"lives"}) || gone != 121 {
		t.Errorf("woken %q, %d are gone", woken, gone)
	}
	if err := r.client.SAdd(t.Context(), r.Key("holding"), "lapsed").Err(); err != nil {
		t.Fatal(err)
	}
	if all, err := r.Held(t.Context()); err != nil || len(all) > 0 || r.client.Exists(t.Context(), r.Key("holding")).Val() > 0 {
		t.Errorf("held %v, %v", all, err)
	}
}

// A key of another type holds nothing, and keeps nothing else back.
func TestHeldBesideWhatIsSpoiled(t *testing.T) {
	t.Parallel()
	r := newHeldRig(t, redistest.One(t))
	r.hold(push.Default, noon, "one")
	r.client.Set(t.Context(), r.Key("held:spoiled"), "x", 0)
	r.client.SAdd(t.Context(), r.Key("holding"), "spoiled")
	all, err := r.Held(t.Context())
	if want := (store.Held{0, 1, 0}); err != nil || len(all) != 1 || all[by] != want {
		t.Errorf("held %v, %v", all, err)
	}
	if w, err := r.WakeHeld(t.Context(), "spoiled", 5, store.FirstHeld); err != nil || w.Gone > 0 {
		t.Errorf("woken %+v, %v", w, err)
	}
	r.client.Set(t.Context(), r.Key("holding"), "x", 0)
	if all, err := r.Held(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("held %v, %v", all, err)
	}
}
