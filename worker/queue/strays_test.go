package queue

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// What names a worker and is not in its hands comes back to the head of the queue: not what it
// has in hand, nor what it has returned, nor what another has.
func TestStrays(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n, other := newNewcomer(t, client), newNewcomer(t, client)
		n.enqueue("others")
		other.pull()
		n.enqueue("held", "returned", "stray")
		if got := n.pull(); len(got) != 3 {
			t.Fatalf("pulled %q", got)
		}
		if err := n.returns("returned", &Return{Why: Deferred}); err != nil {
			t.Fatal(err)
		}
		n.enqueue("new")
		n.strays.drop("stray") // as if nobody had seen it pulled
		n.reclaim()
		pending, err := client.LRange(t.Context(), n.key("pending"), 0, -1).Result()
		if want := []string{"new", "stray"}; err != nil || !slices.Equal(pending, want) {
			t.Errorf("on the queue are %q, want %q: %v", pending, want, err)
		}
		for _, id := range []string{"held", "others"} {
			if state := client.HGet(t.Context(), n.key("t:"+id), "state").Val(); state != "active" {
				t.Errorf("%s is %s", id, state)
			}
		}
		if n.strays.due() || n.strays.holds("returned") || !n.strays.holds("held") {
			t.Error("what is in hand is not known")
		}
	})
}

// losingPulls loses the answers to the next pulls that are done.
type losingPulls struct{ more atomic.Int32 }

func (*losingPulls) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l *losingPulls) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if answer, ok := cmd.(*redis.Cmd); ok && err == nil && slices.Contains(cmd.Args(), any(pullScript.Hash())) {
			if jobs, _ := answer.Slice(); len(jobs) > 3 && l.more.Add(-1) >= 0 {
				cmd.SetErr(io.ErrUnexpectedEOF)
				return io.ErrUnexpectedEOF
			}
		}
		return err
	}
}

func (*losingPulls) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A job whose pull was done and not answered is pulled again, long before its lease is over.
func TestALostPull(t *testing.T) {
	t.Parallel()
	client := redistest.Connect(t, redistest.Own(t).Options())
	lose := new(losingPulls)
	client.AddHook(lose)
	s := idling(t, client, 20*time.Millisecond)
	s.enqueue("first", push.Default)
	<-s.handled
	lose.more.Store(2)
	s.enqueue("lost", push.Default)
	s.enqueue("urgent", push.Critical)
	got := map[string]bool{}
	for range 2 {
		select {
		case id := <-s.handled:
			got[id] = true
		case <-time.After(redistest.Patience):
			t.Fatalf("handled are %v", got)
		}
	}
	if lose.more.Load() >= 0 {
		t.Error("no answer was lost")
	}
	if !got["lost"] || !got["urgent"] {
		t.Errorf("handled are %v", got)
	}
}

// The end of a job whose notification still waits by its record ends nothing: a failover has
// undone what the record said. The job comes back, unless the notification waits on another
// queue: then it is no job of that one.
func TestAnUndoneEnd(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		n := newNewcomer(t, client)
		n.enqueue("recorded", "undone", "elsewhere")
		n.pull()
		if err := client.HSet(t.Context(), n.client.shard.Key("id:recorded"), "state", "delivered").Err(); err != nil {
			t.Fatal(err)
		}
		if err := client.HSet(t.Context(), n.client.shard.Key("id:elsewhere"), "queue", push.Bulk.Queue()).Err(); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"recorded", "undone", "elsewhere"} {
			keys := []string{n.key("active"), n.key("lease"), n.key("t:" + id), n.key("day"), n.key("all")}
			if err := n.client.EvalSha(t.Context(), doneHash, keys, id, time.Now().Unix(), 1<<62).Err(); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
		if !n.strays.suspected() {
			t.Error("nothing is suspected")
		}
		n.reclaim()
		pending, err := client.LRange(t.Context(), n.key("pending"), 0, -1).Result()
		if want := []string{"undone"}; err != nil || !slices.Equal(pending, want) {
			t.Errorf("on the queue are %q, want %q: %v", pending, want, err)
		}
	})
}

func (s *strays) suspected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.doubt.IsZero()
}
