package worker_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A task with a key of the wrong type is set aside from every list, and no other task is lost or delayed.
func TestTaskOfWrongTypeIsSetAside(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	ctx, queue := t.Context(), push.Default.Queue()
	key := queueKey(client, queue, "")
	const n = 40
	for i := range n {
		if i == n/2 {
			must(t, client.Set(ctx, key+"t:bad-pending", "x", 0).Err())
			must(t, client.LPush(ctx, key+"pending", "bad-pending").Err())
		}
		r.enqueue(to(fmt.Sprint("good-", i)))
	}
	soon := to("soon")
	soon.NotBefore = time.Now().Add(500 * time.Millisecond)
	r.enqueue(soon)
	past := redis.Z{Score: float64(time.Now().Add(-5 * time.Minute).Unix())}
	for _, set := range []string{"scheduled", "retry"} { // due before all other jobs
		past.Member = "bad-" + set
		must(t, client.Set(ctx, key+"t:bad-"+set, "x", 0).Err())
		must(t, client.ZAdd(ctx, key+set, past).Err())
		must(t, client.ZAdd(ctx, key+"due", redis.Z{Score: 1e6 * past.Score, Member: past.Member}).Err())
	}
	must(t, client.Set(ctx, key+"t:bad-active", "x", 0).Err())
	must(t, client.LPush(ctx, key+"active", "bad-active").Err())
	r.start()
	counts := r.settled(n + 5)
	if counts.Ended[push.Delivered] != n+1 || counts.Malformed != 4 {
		t.Errorf("counts %+v", counts)
	}
	r.accounts()
}

// A record of the wrong type prevents the end of its own notification, but not of others in the same
// command.
func TestRecordOfWrongTypePreventsNoOtherEnd(t *testing.T) {
	client := oneRedis(t)
	ctx := t.Context()
	ids := []string{"a", "bad", "b", "c", "d"}
	producer := push.NewProducer(client, "", 0)
	key := queueKey(client, push.Default.Queue(), "")
	ends := home(client).NewEnds(push.Default.Queue())
	for _, id := range ids {
		_, err := producer.Enqueue(ctx, to(id))
		must(t, err)
		must(t, client.RPopLPush(ctx, key+"pending", key+"active").Err())
		must(t, client.HSet(ctx, key+"t:"+id, "worker", "a/1").Err())
		ends.Settle(&store.Job{ID: id, Queue: push.Default.Queue(), Claim: "a/1"}, []store.TargetOutcome{{Kind: "delivered"}})
	}
	bad := shardKey(client, "id:bad")
	must(t, client.Del(ctx, bad).Err())
	must(t, client.Set(ctx, bad, "x", 0).Err())
	cmd := ends.Command(ctx)
	_ = client.Process(ctx, cmd)
	problems, err := ends.Read(ctx, cmd)
	must(t, err)
	for i, id := range ids {
		if (problems[i] != nil) != (id == "bad") {
			t.Errorf("%s: %v", id, problems[i])
		}
	}
	if left := client.LRange(ctx, key+"active", 0, -1).Val(); len(left) != 1 || left[0] != "bad" {
		t.Errorf("active are %v", left)
	}
}

// A task that no Producer has enqueued becomes a dead letter, whatever it contains, and does not
// delay the tasks behind it.
func TestForeignTaskBecomesDeadLetter(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, unlimited)
		tasks := asynq.NewClientFromRedisClient(client)
		queue := asynq.Queue(home(client).Queue(push.Default.Queue()))
		foreign := map[string][]asynq.Option{
			"plain":     nil,
			"known":     nil,
			"type":      {asynq.MaxRetry(store.MaxRetry)},
			"unique":    {asynq.MaxRetry(store.MaxRetry), asynq.Unique(time.Hour)},
			"retention": {asynq.MaxRetry(store.MaxRetry), asynq.Retention(time.Hour)},
			"timeout":   {asynq.MaxRetry(store.MaxRetry), asynq.Timeout(time.Second)},
			"deadline":  {asynq.MaxRetry(store.MaxRetry), asynq.Deadline(time.Now().Add(-time.Hour))},
			"no-retry":  {asynq.MaxRetry(0)},
		}
		r.enqueue(to("known"))
		stop := r.start()
		r.settled(1)
		stop()
		r.accounts()

		for id, options := range foreign {
			payload, err := push.Encode(&push.Job{Notification: to(id), AcceptedAt: time.Now()})
			must(t, err)
			kind := store.TaskType
			if id == "type" {
				kind = "somebody:else"
			}
			_, err = tasks.Enqueue(asynq.NewTask(kind, payload), append(options, asynq.TaskID(id), queue)...)
			must(t, err)
		}
		_, err := tasks.Enqueue(asynq.NewTask(store.TaskType, []byte(strings.Repeat("x", 8<<20))), asynq.TaskID("long"), queue)
		must(t, err)
		r.enqueue(to("behind"))
		r.start()
		counts := r.settled(len(foreign) + 3)
		if counts.Accepted != 2 || counts.Ended[push.Delivered] != 2 || int(counts.Malformed) != len(foreign)+1 {
			t.Errorf("counts %+v", counts)
		}
		for id := range foreign {
			if letter := r.letter(id); letter.Reason != string(store.MalformedForeign) || letter.State != store.Malformed || !strings.Contains(string(letter.Job), `"id":"`+id+`"`) {
				t.Errorf("%s: letter %+v", id, letter)
			}
		}
		for id, pushes := range map[string]int{"known": 1, "plain": 0, "behind": 1} {
			if got := len(r.pushed(id)); got != pushes {
				t.Errorf("%s: pushed %d times, want %d", id, got, pushes)
			}
		}
		if letter := r.letter("long"); letter.Reason != string(store.MalformedSize) || len(letter.Job) != 0 {
			t.Errorf("letter %+v, %d bytes", letter.Reason, len(letter.Job))
		}
		r.accounts()
		if n := r.archived(); n != 0 {
			t.Errorf("%d are archived", n)
		}
	})
}
