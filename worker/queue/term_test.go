package queue

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A newcomer is a worker's client on the default queue that has signed.
type newcomer struct {
	*client
	*life
	queue string
	t     *testing.T
}

func newNewcomer(t *testing.T, client redis.UniversalClient) *newcomer {
	t.Helper()
	c := newClient(configOf(t, client))
	n := &newcomer{client: c, life: c.life, queue: push.Default.Queue(), t: t}
	n.life.perSign = redistest.Patience
	n.sign()
	return n
}

// sign signs, and returns who is dead.
func (n *newcomer) sign() []string {
	n.t.Helper()
	dead, err := n.client.sign(n.t.Context(), n.life)
	if err != nil {
		n.t.Fatal(err)
	}
	return dead
}

// seasoned has it have signed without a break for long.
func (n *newcomer) seasoned() *newcomer {
	n.last, n.since = time.Now(), time.Now().Add(-time.Hour)
	return n
}

// id is what it signs with.
func (n *newcomer) id() string { return n.life.term.Load().id }

// unseen has the worker have signed last so long ago.
func (n *newcomer) unseen(ago time.Duration) {
	n.t.Helper()
	now, err := n.client.Time(n.t.Context()).Result()
	if err == nil {
		err = n.client.ZAdd(n.t.Context(), n.client.workersKey(), redis.Z{Score: float64(now.Add(-ago).Unix()), Member: n.id()}).Err()
	}
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *newcomer) key(name string) string { return n.client.shard.QueueKey(n.queue, name) }

// enqueue hands over a notification, each after the one before.
func (n *newcomer) enqueue(ids ...string) {
	n.t.Helper()
	producer := push.NewProducer(n.client.UniversalClient, "", 0)
	for _, id := range ids {
		_, err := producer.Enqueue(n.t.Context(), &push.Notification{
			ID: id, App: "shop", User: "ada", Title: "t", Targets: []push.Target{{Platform: push.APNs, Token: "00fcab"}},
		})
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// pull takes what is on the queue, and returns the IDs.
func (n *newcomer) pull() (ids []string) {
	n.t.Helper()
	for {
		jobs, empty, err := n.once()
		if err != nil {
			n.t.Fatal(err)
		}
		for _, job := range jobs {
			ids = append(ids, job.ID)
		}
		if empty {
			return ids
		}
	}
}

// once pulls once.
func (n *newcomer) once() (jobs []pulled, empty bool, err error) {
	return n.take(n.t.Context(), n.queue, []string{n.key("pending"), n.key("paused"), n.key("active"), n.key("lease")},
		[]any{time.Now().Add(30 * time.Second).Unix(), n.key("t:")})
}

// returns has asynq put the job back on its queue for later, as after a visit that
// returned the error.
func (n *newcomer) returns(id string, back error) error {
	n.t.Helper()
	message, err := n.client.HGet(n.t.Context(), n.key("t:"+id), "msg").Result()
	if err != nil {
		n.t.Fatal(err)
	}
	const errorField = 7 // of asynq's message
	text := back.Error()
	message += string([]byte{errorField<<3 | 2, byte(len(text))}) + text
	keys := []string{n.key("t:" + id), n.key("active"), n.key("lease"), n.key("retry"), n.key("day"), n.key("failed-day"), n.key("all"), n.key("failed")}
	return n.client.EvalSha(n.t.Context(), retryHash, keys, id, []byte(message), time.Now().Unix(), time.Now().Unix(), false, 1<<62).Err()
}

// requeues has asynq cut the job off.
func (n *newcomer) requeues(id string) error {
	return n.client.EvalSha(n.t.Context(), requeueHash, []string{n.key("active"), n.key("lease"), n.key("pending"), n.key("t:" + id)}, id).Err()
}

// What a dead worker has in hand comes back ahead of all that waits, in the order in
// which it was accepted, and counts a failure; what a live one has stays.
func TestADeadWorkersJobsComeBack(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	dead, alive := newNewcomer(t, client), newNewcomer(t, client)
	var ids []string
	for i := range 3 * overPage {
		ids = append(ids, fmt.Sprintf("job-%d", i))
	}
	dead.enqueue(ids...)
	dead.pull()
	alive.enqueue("alive's")
	alive.pull()
	alive.enqueue("last")
	if err := client.HSet(t.Context(), dead.key("t:"+ids[0]), "msg", "no message").Err(); err != nil { // whoever pulls it sets it aside
		t.Fatal(err)
	}
	dead.unseen(deadAfter - 2*time.Second)
	if found := alive.seasoned().sign(); len(found) > 0 {
		t.Errorf("%v is dead too soon", found)
	}
	dead.unseen(deadAfter + time.Second)
	found := alive.sign()
	if !slices.Equal(found, []string{dead.id()}) {
		t.Fatalf("dead are %v, want %s", found, dead.id())
	}
	alive.bury(t.Context(), found)
	newNewcomer(t, client).bury(t.Context(), found) // by another worker at the same time
	if found := alive.sign(); len(found) > 0 {
		t.Errorf("%v is dead once more", found)
	}
	if waits, err := client.LRange(t.Context(), alive.key("pending"), 0, -1).Result(); err != nil || len(waits) != len(ids)+1 {
		t.Errorf("%d jobs are on the queue, %v", len(waits), err)
	}
	got := alive.pull()
	if want := append(ids[1:], "last"); !slices.Equal(got, want) {
		t.Errorf("%d jobs come back as %v, want %d as %v", len(got), got, len(want), want)
	}
	for id, want := range map[string]int{ids[1]: 1, "last": 0, "alive's": 0} {
		message, err := client.HGet(t.Context(), alive.key("t:"+id), "msg").Result()
		if e, _ := store.ReadEnvelope(message); err != nil || e.Retried != want {
			t.Errorf("%s has failed %d times, want %d; %v", id, e.Retried, want, err)
		}
	}
}

// A worker that has not had an answer, or whose own sign is old, judges nobody: Redis may
// have been away, or its clock has been set.
func TestWhoJudges(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	dead, judge := newNewcomer(t, client), newNewcomer(t, client)
	dead.unseen(time.Hour)
	if found := judge.sign(); len(found) > 0 {
		t.Errorf("one that has just come finds %v dead", found)
	}
	judge.seasoned().last = time.Now().Add(-sureFor - time.Second)
	if found := judge.sign(); len(found) > 0 {
		t.Errorf("one that had no answer finds %v dead", found)
	}
	judge.seasoned().unseen(deadAfter + time.Second)
	if found := judge.sign(); len(found) > 0 {
		t.Errorf("one that was not seen finds %v dead", found)
	}
	if found := judge.sign(); len(found) != 1 {
		t.Errorf("%v is dead in the end", found)
	}
}

// A Redis that is full refuses no sign: what is in hand can be sent and settled there.
func TestAFullRedisTakesASign(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t, redistest.Connect(t, redistest.Start(t).Options()))
	if err := n.client.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if n.sign(); !n.life.term.Load().Sure() {
		t.Error("the sign is not taken")
	}
}

// A server that could not put back all does not sign off, so that others find it.
func TestWhoLeavesJobsDoesNotSignOff(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	for cause, want := range map[error]int64{nil: 0, errLeft: 1} {
		n := newNewcomer(t, client)
		ctx, end := context.WithCancelCause(t.Context())
		end(cause)
		n.keep(ctx, n.life, func() {})
		if got := client.ZCard(t.Context(), n.client.workersKey()).Val(); got != want {
			t.Errorf("%d are left for %v, want %d", got, cause, want)
		}
		client.Del(t.Context(), n.client.workersKey())
	}
}

// A worker that others have taken for dead begins another term, drops what it has pulled
// before, and takes nothing from whoever has it now.
func TestAWorkerThatWasTakenForDead(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	stopped, other := newNewcomer(t, client), newNewcomer(t, client)
	stopped.enqueue("job")
	stopped.pull()
	before, term := stopped.id(), stopped.life.term.Load()
	if term.Lost(t.Context()) {
		t.Error("the term is lost at once")
	}
	stopped.unseen(time.Hour)
	other.bury(t.Context(), other.seasoned().sign())
	if got := other.pull(); !slices.Equal(got, []string{"job"}) {
		t.Fatalf("the other pulls %v", got)
	}
	if errs := []error{stopped.returns("job", &Return{Why: Deferred}), stopped.requeues("job")}; !redisreply.NotFound(errs[0]) || !redisreply.NotFound(errs[1]) {
		t.Errorf("before it knows: %v", errs)
	}
	stopped.sign()
	if !term.Lost(t.Context()) || stopped.id() == before || stopped.life.term.Load().Lost(t.Context()) {
		t.Error("it has not begun another term")
	}
	if err := stopped.returns("job", ErrLost); err != nil {
		t.Error(err)
	}
	if state := client.HGet(t.Context(), other.key("t:job"), "state").Val(); state != "active" {
		t.Errorf("the other's job is %s", state)
	}
	if err := other.returns("job", &Return{Why: Deferred}); err != nil {
		t.Errorf("the other returns its job: %v", err)
	}
	if left := client.LLen(t.Context(), other.key("active")).Val(); left != 0 {
		t.Errorf("%d are in hand", left)
	}
	// what a pull on its way has taken meanwhile is found too
	if found := other.seasoned().sign(); !slices.Equal(found, []string{before}) {
		t.Errorf("dead are %v, want %s once more", found, before)
	}
}

// While it is not certain whether a term goes on, whoever asks waits for the next sign.
func TestATermIsUncertain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		then func(term *Term, end context.CancelFunc)
		lost bool
	}{
		"it goes on":      {func(term *Term, _ context.CancelFunc) { term.note(time.Now().Add(time.Second), false) }, false},
		"it is over":      {func(term *Term, _ context.CancelFunc) { term.note(time.Time{}, true) }, true},
		"nobody can wait": {func(_ *Term, end context.CancelFunc) { end() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				defer end()
				term := newTerm()
				term.note(time.Now().Add(time.Second), false)
				if term.Lost(ctx) {
					t.Error("it is lost while it is certain")
				}
				<-time.After(time.Second)
				answer := make(chan bool, 1)
				go func() { answer <- term.Lost(ctx) }()
				synctest.Wait()
				select {
				case lost := <-answer:
					t.Errorf("it is said to be lost: %t", lost)
				default:
				}
				c.then(term, end)
				if lost := <-answer; lost != c.lost {
					t.Errorf("lost: %t, want %t", lost, c.lost)
				}
			})
		})
	}
}
