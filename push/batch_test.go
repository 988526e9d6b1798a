package push_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// mixed returns a batch of n notifications, with all priorities, due and scheduled.
func mixed(prefix string, n int) []*push.Notification {
	batch := make([]*push.Notification, n)
	for i := range batch {
		batch[i] = order(fmt.Sprint(prefix, i), func(n *push.Notification) {
			n.Priority = []push.Priority{push.Critical, push.Default, push.Bulk}[i%3]
			if i%4 == 0 {
				n.TTL, n.NotBefore = 0, time.Now().Add(time.Hour)
			}
		})
	}
	return batch
}

// queued returns the number of waiting jobs.
func queued(t *testing.T, client redis.UniversalClient) (n int64) {
	t.Helper()
	at := shard.NewShards(client, "", 1)[0]
	for _, queue := range shard.Queues {
		n += client.LLen(t.Context(), at.QueueKey(queue, "pending")).Val() + client.ZCard(t.Context(), at.QueueKey(queue, "scheduled")).Val()
	}
	return n
}

func accepted(t *testing.T, client redis.UniversalClient) int64 {
	t.Helper()
	counts, err := store.NewRecords(client, "", 0).Counts(t.Context())
	must(t, err)
	return counts.Accepted
}

// A batch needs one round trip. Each notification has its own result: known, in conflict, invalid
// or rejected by Redis.
func TestBatchNeedsOneRoundTrip(t *testing.T) {
	t.Parallel()
	client, trips := redistest.Own(t), new(redistest.Trips)
	client.AddHook(trips)
	producer := push.NewProducer(client, "", 0)
	first := mixed("first-", 3)
	producer.EnqueueAll(t.Context(), first)
	for round := range int64(2) {
		const n = 100
		batch := mixed(fmt.Sprint("round-", round, "-"), n)
		batch[10], batch[20] = batch[9], first[0]
		other := *first[1]
		other.Title = "Delivered"
		batch[30] = &other
		batch[40] = order("bad", func(n *push.Notification) { n.Targets = nil })
		must(t, client.Set(t.Context(), shard.NewShards(client, "pushpace", 1)[0].Key("id:"+batch[50].ID), "of another type", 0).Err())
		trips.Take()
		results := producer.EnqueueAll(t.Context(), batch)
		if got := trips.Take(); len(got) != 1 {
			t.Errorf("round %d: %d round trips: %q", round, len(got), got)
		}
		for i, r := range results {
			switch i {
			case 30:
				if !errors.Is(r.Err, push.ErrConflict) {
					t.Errorf("another content: %+v", r)
				}
			case 40:
				if !errors.As(r.Err, new(push.Faults)) {
					t.Errorf("invalid: %+v", r)
				}
			case 50:
				if !redis.HasErrorPrefix(r.Err, "WRONGTYPE") {
					t.Errorf("blocked: %+v", r)
				}
			default:
				if r.Err != nil || r.Known != (i == 10 || i == 20) {
					t.Errorf("%d: %+v", i, r)
				}
			}
		}
		want := int64(len(first)) + (round+1)*(n-5)
		if got, jobs := accepted(t, client), queued(t, client); got != want || jobs != want {
			t.Errorf("round %d: %d accepted, %d queued, want %d", round, got, jobs, want)
		}
	}
}

// A cut ends a client's connection once: before it has written left more bytes, or when it gets an
// answer.
type cut struct {
	net.Conn
	left     *atomic.Int64 // to write; 0 for all
	answered *atomic.Bool
}

func (c cut) Write(p []byte) (int, error) {
	left := c.left.Load()
	if left == 0 || left > int64(len(p)) {
		return c.Conn.Write(p)
	}
	c.left.Store(0)
	n, _ := c.Conn.Write(p[:left])
	return n, errors.Join(io.ErrClosedPipe, c.Close())
}

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.answered.CompareAndSwap(true, false) {
		return 0, errors.Join(io.ErrUnexpectedEOF, c.Close())
	}
	return n, err
}

// After a broken connection the batch is enqueued again, and each notification is queued once.
func TestInterruptedBatchIsEnqueuedOnce(t *testing.T) {
	t.Parallel()
	for _, retries := range []int{-1, 3} { // the client's own
		t.Run(fmt.Sprint(retries), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			left, answered := new(atomic.Int64), new(atomic.Bool)
			options := server.Options()
			options.MaxRetries = retries
			options.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				return cut{conn, left, answered}, err
			}
			client := redistest.Connect(t, options)
			producer := push.NewProducer(client, "", 0)
			const n = 100
			want, broken := int64(0), 0
			for round, breakOff := range []func(){
				func() {},
				func() { left.Store(100) }, func() { left.Store(20_000) }, func() { left.Store(30_000) }, func() { answered.Store(true) },
			} {
				batch := mixed(fmt.Sprint("round-", round, "-"), n)
				batch[10] = batch[9]
				breakOff()
				failed := true
				for try := 0; failed && try < 3; try++ {
					failed = false
					for _, r := range producer.EnqueueAll(t.Context(), batch) {
						failed = failed || r.Err != nil
					}
					if failed {
						broken++
					}
				}
				want += n - 1
				if got, jobs := accepted(t, client), queued(t, client); failed || got != want || jobs != want {
					t.Errorf("round %d: failed: %t, %d accepted, %d queued, want %d", round, failed, got, jobs, want)
				}
			}
			if retries < 0 && broken != 4 {
				t.Errorf("%d of 4 batches were broken off", broken)
			}
			for _, n := range mixed("alone-", 2) { // scheduled, and due
				answered.Store(retries > 0)
				if r, err := producer.Enqueue(t.Context(), n); err != nil || r.Known {
					t.Errorf("the client has repeated it: %+v, %v", r, err)
				}
			}
		})
	}
}

// If the password of Redis has changed, each result of a batch has the error, also on a client with a
// name.
func TestBatchReportsRefusedConnection(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	options := server.Options()
	options.ClientName = "shop" // with a name, go-redis leaves the commands without an error
	client := redistest.Connect(t, options)
	must(t, server.Client(t).ConfigSet(t.Context(), "requirepass", "changed").Err())
	for _, r := range push.NewProducer(client, "", 0).EnqueueAll(t.Context(), mixed("refused-", 2)) {
		if r.Err == nil || !strings.Contains(r.Err.Error(), "NOAUTH") {
			t.Errorf("%+v", r)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
