package worker_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// plain returns the JSON of a notification, as a producer in any language writes it.
func plain(id string, change func(n *push.Notification)) []byte {
	n := to(id)
	if change != nil {
		change(n)
	}
	text, err := json.Marshal(n)
	if err != nil {
		panic(err)
	}
	return text
}

// byHand writes a task like a port of asynq to another language.
func byHand(t *testing.T, client redis.UniversalClient, queue, id string, payload []byte) {
	t.Helper()
	var message []byte
	text := func(field protowire.Number, v string) {
		message = protowire.AppendString(protowire.AppendTag(message, field, protowire.BytesType), v)
	}
	number := func(field protowire.Number, v uint64) {
		message = protowire.AppendVarint(protowire.AppendTag(message, field, protowire.VarintType), v)
	}
	text(1, store.TaskType)
	text(2, string(payload))
	text(3, id)
	text(4, queue)
	number(5, 3)                         // retries
	number(8, 60)                        // time-out
	number(9, uint64(time.Now().Unix())) // deadline
	number(12, 3600)                     // retention
	pipe := client.Pipeline()
	pipe.SAdd(t.Context(), shard.QueuesKey, queue)
	pipe.HSet(t.Context(), shard.QueueKey(queue, "t:"+id), "msg", message, "state", "pending", "pending_since", time.Now().UnixNano())
	pipe.LPush(t.Context(), shard.QueueKey(queue, "pending"), id)
	_, err := pipe.Exec(t.Context())
	must(t, err)
}

// putTask writes a task as a plain asynq client does.
func putTask(t *testing.T, client redis.UniversalClient, queue string, payload []byte, options ...asynq.Option) {
	t.Helper()
	c := asynq.NewClientFromRedisClient(client)
	_, err := c.EnqueueContext(t.Context(), asynq.NewTask(store.TaskType, payload), append(options, asynq.Queue(queue))...)
	must(t, err)
}

// left returns the number of tasks on the intake's queues.
func left(t *testing.T, client redis.UniversalClient) (n int) {
	t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(client)
	queues, err := inspector.Queues()
	must(t, err)
	for _, queue := range queues {
		if slices.Contains(shard.Queues, queue) {
			info, err := inspector.GetQueueInfo(queue)
			must(t, err)
			n += info.Size
		}
	}
	return n
}

// Each task that a plain asynq client puts on an intake is sent once, or becomes a dead letter.
func TestIntakeAcceptsPlainAsynqTasks(t *testing.T) {
	overRedis(t, func(t *testing.T, client redis.UniversalClient) {
		r := newRig(t, client, unlimited)
		const normal, bulk = "pushpace-default", "pushpace-bulk"
		sent := []string{"named", "twice", "task-id", "urgent", "for-bulk", "by-hand", "delayed", "exotic"}
		putTask(t, client, normal, plain("named", nil))
		putTask(t, client, normal, plain("twice", nil))
		putTask(t, client, normal, plain("twice", nil))
		putTask(t, client, normal, plain("", nil), asynq.TaskID("task-id"))
		putTask(t, client, bulk, plain("urgent", func(n *push.Notification) { n.Priority = push.Critical }))
		putTask(t, client, bulk, plain("for-bulk", nil))
		putTask(t, client, normal, plain("exotic", nil), asynq.MaxRetry(1), asynq.Timeout(time.Second), asynq.Deadline(time.Now().Add(-time.Hour)), asynq.Retention(time.Hour))
		putTask(t, client, normal, plain("delayed", nil), asynq.ProcessIn(2*time.Second))
		putTask(t, client, normal, plain("later", nil), asynq.ProcessIn(time.Hour))
		byHand(t, client, normal, "task-by-hand", plain("by-hand", nil))

		reasons := map[string]store.MalformedReason{
			"conflict": store.MalformedNotification, "no-json": store.MalformedJSON, "unknown-field": store.MalformedNotification, "no-target": store.MalformedNotification,
			"large": store.MalformedSize, "huge": store.MalformedSize, "unique": store.MalformedForeign, "group": store.MalformedForeign,
			"type": store.MalformedForeign, "no-hash": store.MalformedEnvelope, "no-message": store.MalformedEnvelope,
		}
		putTask(t, client, normal, plain("named", func(n *push.Notification) { n.Title = "another" }), asynq.TaskID("conflict"))
		putTask(t, client, normal, []byte(`{"id":`), asynq.TaskID("no-json"))
		putTask(t, client, normal, []byte(`{"id":"x","ap":"shop"}`), asynq.TaskID("unknown-field"))
		putTask(t, client, normal, plain("x", func(n *push.Notification) { n.Targets = nil }), asynq.TaskID("no-target"))
		putTask(t, client, normal, []byte(strings.Repeat("x", store.MaxPayload+1)), asynq.TaskID("large"))
		putTask(t, client, normal, []byte(strings.Repeat("x", store.MaxEnvelopeSize)), asynq.TaskID("huge"))
		putTask(t, client, normal, plain("x", nil), asynq.TaskID("unique"), asynq.Unique(time.Hour))
		putTask(t, client, normal, plain("x", nil), asynq.TaskID("group"), asynq.Group("many"))
		_, err := asynq.NewClientFromRedisClient(client).EnqueueContext(t.Context(), asynq.NewTask("email", []byte("{}")), asynq.Queue(normal), asynq.TaskID("type"))
		must(t, err)
		must(t, client.Set(t.Context(), shard.QueueKey(normal, "t:no-hash"), "x", 0).Err())
		must(t, client.HSet(t.Context(), shard.QueueKey(normal, "t:no-message"), "msg", "\xff").Err())
		must(t, client.LPush(t.Context(), shard.QueueKey(normal, "pending"), "no-hash", "no-message", "no-task").Err())

		r.start()
		r.start() // both lead until each has seen the other's heartbeat
		counts := r.settled(len(sent) + len(reasons))
		wait(t, func() bool { return left(t, client) == 1 }) // the task that is due later
		if counts.Accepted != int64(len(sent)) || counts.Ended[push.Delivered] != int64(len(sent)) || counts.Malformed != int64(len(reasons)) {
			t.Errorf("%+v", counts)
		}
		for _, id := range sent {
			if n := len(r.pushed(id)); n != 1 {
				t.Errorf("%s was pushed %d times", id, n)
			}
		}
		got := map[string]store.MalformedReason{}
		for id := range reasons {
			letter := r.letter(id)
			if got[id] = store.MalformedReason(letter.Reason); letter.State != store.Malformed || letter.Error == "" {
				t.Errorf("%s: %+v", id, letter)
			}
		}
		if !maps.Equal(got, reasons) {
			t.Errorf("%v, want %v", got, reasons)
		}
		for id, queue := range map[string]string{"named": push.Default.Queue(), "urgent": push.Critical.Queue(), "for-bulk": push.Bulk.Queue()} {
			if on := r.record(id).Queue; on != queue {
				t.Errorf("%s was on %s", id, on)
			}
		}
		if groups := client.SCard(t.Context(), shard.QueueKey(normal, "groups")).Val(); groups != 0 {
			t.Errorf("%d groups are left", groups)
		}
	})
}

// A paused intake keeps its tasks. Once it is resumed, the worker takes all of them without a pause.
func TestPausedIntakeKeepsTasks(t *testing.T) {
	const n = 1000
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	inspector := asynq.NewInspectorFromRedisClient(client)
	for i := range n {
		putTask(t, client, "pushpace-bulk", plain(fmt.Sprint("n-", i), nil))
	}
	must(t, inspector.PauseQueue("pushpace-bulk"))
	r.start()
	putTask(t, client, "pushpace-critical", plain("other", nil))
	r.settled(1)
	if on := left(t, client); on != n {
		t.Errorf("%d are left", on)
	}
	must(t, inspector.UnpauseQueue("pushpace-bulk"))
	began := time.Now()
	wait(t, func() bool { return left(t, client) == 0 })
	t.Logf("%d are taken within %s", n, time.Since(began))
	r.settled(n + 1)
}

// A task stays on the intake if Redis fails to accept it. The log reports the error once.
func TestIntakeKeepsTasksDuringRedisError(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	log := r.logs()
	must(t, client.Set(t.Context(), shardKey(client, "counts"), "of another type", 0).Err())
	for _, id := range []string{"first", "second"} {
		putTask(t, client, "pushpace-default", plain(id, nil))
	}
	r.start()
	const trouble = "are not accepted, and stay"
	wait(t, func() bool { return strings.Contains(log.String(), trouble) })
	time.Sleep(time.Second) // several polls
	if n := left(t, client); n != 2 {
		t.Errorf("%d are left", n)
	}
	must(t, client.Del(t.Context(), shardKey(client, "counts")).Err())
	r.settled(2)
	wait(t, func() bool { return strings.Contains(log.String(), "are accepted again") })
	if n := strings.Count(log.String(), trouble); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// asynq's tools list, count, delete, archive and run the jobs of a shard's queues. If they delete a job,
// its notification waits until it is cancelled, and the audit reports the missing job.
func TestAsynqToolsManageShardQueues(t *testing.T) {
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	inspector, queue := asynq.NewInspectorFromRedisClient(client), home(client).Queue(push.Default.Queue())
	stop := r.start()
	wait(t, func() bool { all, err := inspector.Queues(); return err == nil && slices.Contains(all, queue) })
	stop()
	later := time.Now().Add(time.Hour).Truncate(time.Second)
	for _, id := range []string{"due", "archived", "deleted", "later", "deleted-later"} {
		n := to(id)
		if strings.HasSuffix(id, "later") {
			n.NotBefore = later
		}
		r.enqueue(n)
	}
	sizes := func(pending, scheduled, retry, archived int) {
		t.Helper()
		info, err := inspector.GetQueueInfo(queue)
		must(t, err)
		if info.Pending != pending || info.Scheduled != scheduled || info.Retry != retry || info.Archived != archived {
			t.Errorf("%+v", info)
		}
	}
	sizes(3, 2, 0, 0)
	pending, err := inspector.ListPendingTasks(queue)
	must(t, err)
	for _, task := range pending {
		if job, err := push.Decode(task.Payload); err != nil || task.ID != job.Notification.ID || task.Type != store.TaskType {
			t.Errorf("%+v, %v", task, err)
		}
	}
	scheduled, err := inspector.ListScheduledTasks(queue)
	must(t, err)
	for _, task := range scheduled {
		if !task.NextProcessAt.Equal(later) {
			t.Errorf("%+v", task)
		}
	}

	must(t, inspector.DeleteTask(queue, "deleted"))
	must(t, inspector.DeleteTask(queue, "deleted-later"))
	must(t, inspector.ArchiveTask(queue, "archived"))
	sizes(1, 1, 0, 1)
	missing := func(n, queued int64) {
		t.Helper()
		wait(t, func() bool {
			audit, err := r.inspector().Audit(t.Context())
			must(t, err)
			return audit.Difference == n && audit.Queued == queued
		})
	}
	missing(3, 2)
	if receipt := r.enqueue(to("deleted")); !receipt.Known {
		t.Error("the ID of a deleted job is not known")
	}
	for _, id := range []string{"deleted", "deleted-later"} {
		must(t, r.cancel(push.Ref{ID: id}))
		if record := r.record(id); record.State != push.Cancelled || record.Error != "its job was gone" {
			t.Errorf("%s: %+v", id, record)
		}
	}
	missing(1, 2)
	must(t, inspector.RunTask(queue, "archived"))
	must(t, inspector.RunTask(queue, "later"))
	missing(0, 3)
	sizes(3, 0, 0, 0)
	r.start()
	r.settled(4)
	wait(t, func() bool {
		return client.ZCard(t.Context(), queueKey(client, push.Default.Queue(), "retry")).Val() == 1
	}) // not before its instant
	sizes(0, 0, 1, 0)
	for _, id := range []string{"due", "archived"} {
		if n := len(r.pushed(id)); n != 1 {
			t.Errorf("%s was pushed %d times", id, n)
		}
	}
	must(t, inspector.PauseQueue(queue))
	r.enqueue(to("paused"))
	must(t, inspector.RunTask(queue, "later"))
	time.Sleep(300 * time.Millisecond)
	sizes(2, 0, 0, 0)
	must(t, inspector.UnpauseQueue(queue))
	r.settled(5)
	missing(0, 1) // it is scheduled again
}

// Tasks that their shard refuses do not delay the tasks behind them.
func TestIntakeSkipsRefusedTasks(t *testing.T) {
	const n = store.MaxOffers + 10
	client := oneRedis(t)
	r := newRig(t, client, unlimited)
	for i := range n {
		id := fmt.Sprint("stays-", i)
		must(t, client.Set(t.Context(), shardKey(client, "id:"+id), "of another type", 0).Err())
		putTask(t, client, "pushpace-default", plain(id, nil))
	}
	putTask(t, client, "pushpace-default", plain("behind", nil))
	r.start()
	r.settled(1)
	if pushed := len(r.pushed("behind")); pushed != 1 {
		t.Errorf("pushed %d times", pushed)
	}
	wait(t, func() bool { return left(t, client) == n })
}
