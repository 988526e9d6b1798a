package worker_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/push"
)

// Messages that asynq itself cannot read are kept, and do not keep a crashed
// neighbour's job from being recovered.
func TestUnreadableMessagesAreSetAside(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	ctx, queue := t.Context(), push.Default.Queue()
	key := queueKey(client, queue, "")
	r.enqueue(to("neighbour"))
	// as a worker leaves them that crashed a while ago with all three
	long := float64(time.Now().Add(-5 * time.Minute).Unix())
	must(t, client.HSet(ctx, key+"t:garbage", "msg", "\xff\xff\xff", "state", "active").Err())
	must(t, client.HSet(ctx, key+"t:missing", "state", "active").Err())
	must(t, client.LRem(ctx, key+"pending", 0, "neighbour").Err())
	for _, id := range []string{"garbage", "missing", "neighbour"} {
		must(t, client.LPush(ctx, key+"active", id).Err())
		must(t, client.ZAdd(ctx, key+"lease", redis.Z{Score: long, Member: id}).Err())
	}
	must(t, client.HSet(ctx, key+"t:neighbour", "state", "active").Err())

	r.start() // looks at the leases when it starts
	wait(t, func() bool {
		counts, err := r.records.Counts(ctx)
		must(t, err)
		return counts.Malformed == 2
	})
	for id, message := range map[string]string{"garbage": "\xff\xff\xff", "missing": ""} {
		if letter := r.letter(id); letter.Reason != string(asynqwire.MalformedEnvelope) || string(letter.Job) != message {
			t.Errorf("%s: letter %+v", id, letter)
		}
	}
	r.start() // its recoverer looks at once, and can read what is left
	r.settled(3)
	if len(r.pushed("neighbour")) != 1 {
		t.Error("the neighbour's job is not recovered")
	}
}
