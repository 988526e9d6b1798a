package store_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/redisreply"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/store/storetest"
	"github.com/pushpace/pushpace/push"
)

// before calls do before the first command that contains words.
func before(do func(), words ...any) redistest.Around {
	var once sync.Once
	return func(_ context.Context, cmds []redis.Cmder, next func() error) error {
		if !slices.ContainsFunc(words, func(word any) bool { return !slices.Contains(cmds[0].Args(), word) }) {
			once.Do(do)
		}
		return next()
	}
}

// A notification that ends while it is taken is reported with that end.
func TestTakeReportsConcurrentEnd(t *testing.T) {
	t.Parallel()
	client := redistest.Own(t)
	at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
	for id, hasJob := range map[string]bool{"jobless": false, "taken": true} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			n := &push.Notification{ID: id, App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
			if hasJob {
				must(t, second(push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)))
			} else {
				must(t, at.Arrive(t.Context(), id, n.Priority.Queue(), store.Facts{App: n.App, User: n.User}))
			}
			meanwhile := redistest.Another(t, client)
			redistest.Hook(meanwhile, before(func() {
				if first, err := at.Settle(t.Context(), id, &store.End{State: push.Expired}); err != nil || !first {
					t.Errorf("%t, %v", first, err)
				}
			}, at.Key("id:"+id), at.Key("counts")))
			its := storetest.First(t, store.NewRecords(meanwhile, "", 0).WithShards(1))
			taken, err := its.Take(t.Context(), push.Ref{ID: id}, store.TakeOptions{State: push.Cancelled, Read: push.Contents})
			if taken != nil || !errors.Is(err, push.ErrEnded) || !strings.HasSuffix(err.Error(), ": expired") {
				t.Errorf("%+v, %v", taken, err)
			}
		})
	}
}

// Take sees an attempt that is recorded after its first read.
func TestTakeSeesLastAttempt(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records := store.NewRecords(client, "", 0).WithShards(1)
		n := &push.Notification{ID: "tried", App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}, {Platform: push.FCM, Token: "u"}}, Title: "t"}
		must(t, second(push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)))
		at := storetest.At(t, records, n.ID)
		meanwhile := redistest.Another(t, client)
		redistest.Hook(meanwhile, before(func() {
			back := &store.PutOff{Attempt: &store.Attempt{Number: 1, Outcomes: []store.TargetOutcome{{Kind: "delivered"}, {Kind: "retry"}}}}
			if err := at.PutOff(t.Context(), storetest.ClaimJob(t, client, at, n.Priority.Queue(), n.ID), back); err != nil {
				t.Error(err)
			}
		}, shard.NewShards(client, "", 1)[0].QueueKey(n.Priority.Queue(), "t:tried")))
		taken, err := storetest.At(t, store.NewRecords(meanwhile, "", 0).WithShards(1), n.ID).Take(t.Context(), push.Ref{ID: n.ID}, store.TakeOptions{State: push.Cancelled, Read: push.Contents})
		if err != nil || taken.State != push.Delivered || !taken.Used {
			t.Errorf("%+v, %v", taken, err)
		}
	})
}

// TakeAll takes the waiting notifications of a batch in one script. Notifications that are in
// flight, ended, unknown, unreadable or named twice get their own errors, and the counts are exact.
func TestTakeAllReportsEachError(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		counting := redistest.Another(t, client)
		scripts := redistest.Count(counting, redistest.Script)
		records, producer := store.NewRecords(counting, "", 0).WithShards(1), push.NewProducer(client, "", 0).WithShards(1)
		const many = 150
		var refs []push.Ref
		enqueue := func(id string, priority push.Priority, later time.Duration) {
			n := &push.Notification{ID: id, App: "a", User: "u", Priority: priority, Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
			if later > 0 {
				n.NotBefore = time.Now().Add(later)
			}
			must(t, second(producer.Enqueue(t.Context(), n)))
			refs = append(refs, push.Ref{ID: id, App: "a", User: "u"})
		}
		for i := range many {
			enqueue(fmt.Sprint("n-", i), []push.Priority{push.Default, push.Bulk, push.Critical}[i%3], time.Duration(i%2)*time.Hour)
		}
		for _, id := range []string{"in flight", "broken", "misplaced", "unreadable", "ended"} {
			enqueue(id, push.Default, 0)
		}
		at := storetest.At(t, records, "n-0")
		task := func(id string) string { return at.QueueKey(push.Default.Queue(), "t:"+id) }
		client.HSet(t.Context(), task("in flight"), "state", "active")
		client.HSet(t.Context(), task("unreadable"), "msg", "x")
		client.Del(t.Context(), task("broken"))
		client.Set(t.Context(), task("broken"), "not ours", 0)
		client.HSet(t.Context(), task("misplaced"), "state", "archived")
		client.Set(t.Context(), at.QueueKey(push.Default.Queue(), "archived"), "not ours", 0)
		must(t, second(at.Take(t.Context(), push.Ref{ID: "ended"}, store.TakeOptions{State: push.Superseded, Read: push.Contents})))
		before := scripts.Load()
		refs = append(refs, push.Ref{ID: "n-7"}, push.Ref{ID: "nobody"}, push.Ref{ID: "n-8", App: "b"})
		taken, errs := at.TakeAll(t.Context(), refs, store.TakeOptions{State: push.Cancelled, Read: push.Contents, Others: store.AllOthers})
		for i := range many {
			if one := taken[i]; errs[i] != nil || one.ID != refs[i].ID || one.User != "u" || one.State != push.Cancelled || one.Used {
				t.Errorf("%s: %+v, %v", refs[i].ID, one, errs[i])
			}
		}
		for i, want := range []error{push.ErrUnderWay, nil, nil, nil, push.ErrEnded, push.ErrEnded, push.ErrUnknownID, push.ErrUnknownID} {
			if got := errs[many+i]; taken[many+i] != nil || got == nil || want != nil && !errors.Is(got, want) {
				t.Errorf("%s: %v, want %v", refs[many+i].ID, got, want)
			}
		}
		if err := errs[many+2]; !redisreply.OfItsKeys(err) {
			t.Errorf("of a list of another type: %v", err)
		}
		if ran := scripts.Load() - before; ran != 1 {
			t.Errorf("it took %d scripts", ran)
		}
		counts, err := records.Counts(t.Context())
		if err != nil || counts.Ended[push.Cancelled] != many || counts.Waiting() != 4 {
			t.Errorf("%+v, %v", counts, err)
		}

		// workers get the notes, and delete each note once
		abandoned, more, err := at.ClaimNotes(t.Context(), many)
		if err != nil || len(abandoned) != 0 || more {
			t.Errorf("too early: %d, %t, %v", len(abandoned), more, err)
		}
		must(t, store.MarkReleased(t.Context(), taken[1:many]))
		must(t, store.LeaveToWorkers(t.Context(), taken[:1]))
		if abandoned, more, err = at.ClaimNotes(t.Context(), many); err != nil || len(abandoned) != many || !more {
			t.Errorf("abandoned are %d, %t, %v", len(abandoned), more, err)
		}
		for _, one := range abandoned {
			if one.Released == (one.ID == taken[0].ID) {
				t.Errorf("%+v", one)
			}
		}
		for _, want := range []int{many, 0} {
			if first, err := store.DeleteNotes(t.Context(), abandoned); err != nil || len(first) != want {
				t.Errorf("%d notes are deleted, %v", len(first), err)
			}
		}
	})
}

// A repeated call after a lost reply returns the result of the first call.
func TestRepeatedTakeReturnsFirstResult(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		twice := redistest.Another(t, client)
		letters := any(shard.NewShards(client, "pushpace", 1)[0].Key("letters"))
		redistest.Hook(twice, redistest.Around(func(_ context.Context, cmds []redis.Cmder, next func() error) error {
			err := next()
			if err == nil && slices.Contains(cmds[0].Args(), letters) { // as go-redis does after a lost reply
				err = next()
			}
			return err
		}))
		records, producer := store.NewRecords(twice, "", 0).WithShards(1), push.NewProducer(twice, "", 0).WithShards(1)
		n := &push.Notification{ID: "one", App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
		must(t, second(producer.Enqueue(t.Context(), n)))
		if taken, err := storetest.At(t, records, n.ID).Take(t.Context(), push.Ref{ID: n.ID}, store.TakeOptions{State: push.Cancelled, Read: push.Contents}); err != nil || taken.State != push.Cancelled {
			t.Errorf("take: %+v, %v", taken, err)
		}
		job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
		must(t, err)
		letter := &store.Letter{ID: "bad", State: store.Malformed, Reason: "invalid", Queue: n.Priority.Queue(), Job: job}
		must(t, storetest.First(t, records).SetAside(t.Context(), letter))
		if err := producer.Requeue(t.Context(), letter.ID); err != nil {
			t.Errorf("requeue: %v", err)
		}
		counts, err := records.Counts(t.Context())
		if err != nil || counts.Accepted != 1 || counts.Ended[push.Cancelled] != 1 || counts.Malformed != 0 || counts.Letters != 0 {
			t.Errorf("%+v, %v", counts, err)
		}
	})
}

// A malformed letter is not requeued over the job of a notification with its ID.
func TestRequeueMalformedLetterKeepsOtherJob(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records, producer := store.NewRecords(client, "", 0).WithShards(1), push.NewProducer(client, "", 0).WithShards(1)
		n := &push.Notification{ID: "one", App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
		letter := &store.Letter{ID: n.ID, State: store.Malformed, Reason: "not_json", Queue: n.Priority.Queue(), Job: []byte("{")}
		must(t, storetest.First(t, records).SetAside(t.Context(), letter))
		must(t, second(producer.Enqueue(t.Context(), n)))
		task := shard.NewShards(client, "", 1)[0].QueueKey(n.Priority.Queue(), "t:one")
		before := client.HGetAll(t.Context(), task).Val()
		kept, _, err := records.Letter(t.Context(), store.Ref{ID: n.ID}, push.Contents, nil)
		must(t, err)
		if err := storetest.First(t, records).Requeue(t.Context(), kept, kept.Job, nil, nil); !errors.Is(err, store.ErrJobExists) {
			t.Error(err)
		}
		if after := client.HGetAll(t.Context(), task).Val(); !maps.Equal(before, after) {
			t.Errorf("the job was %v, and is %v", before, after)
		}
	})
}

// A requeued job is due, wherever the job of the last attempt has stayed.
func TestRequeuedJobIsDue(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		records, producer, s := store.NewRecords(client, "", 0).WithShards(1), push.NewProducer(client, "", 0).WithShards(1), shard.NewShards(client, "", 1)[0]
		for _, state := range []string{"pending", "scheduled", "retry", "archived"} {
			n := &push.Notification{ID: state, App: "a", User: "u", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}, Title: "t"}
			job, err := push.Encode(&push.Job{Notification: n, AcceptedAt: time.Now()})
			must(t, err)
			queue := n.Priority.Queue()
			end := &store.End{State: push.Exhausted, Letter: &store.Letter{ID: n.ID, State: push.Exhausted, Reason: "r", Queue: queue, Job: job}}
			must(t, second(storetest.At(t, records, n.ID).Settle(t.Context(), n.ID, end)))
			client.HSet(t.Context(), s.QueueKey(queue, "t:"+n.ID), "state", state, "msg", "old")
			if state == "pending" {
				client.LPush(t.Context(), s.QueueKey(queue, state), n.ID)
			} else {
				client.ZAdd(t.Context(), s.QueueKey(queue, state), redis.Z{Score: 1e10, Member: n.ID})
				defer func() {
					if left := client.ZCard(t.Context(), s.QueueKey(queue, state)).Val(); left != 0 {
						t.Errorf("%s: %d are left", state, left)
					}
				}()
			}
			if err := producer.Requeue(t.Context(), n.ID); err != nil {
				t.Errorf("%s: %v", state, err)
			}
			if in := client.HGet(t.Context(), s.QueueKey(queue, "t:"+n.ID), "state").Val(); in != "pending" {
				t.Errorf("%s: it is %s", state, in)
			}
		}
		if due := client.LRange(t.Context(), s.QueueKey("pushpace-default", "pending"), 0, -1).Val(); len(due) != 4 {
			t.Errorf("due are %v", due)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call with two results.
func second[T any](_ T, err error) error { return err }

// Each call reads the next 1,000 notifications of a user. Notifications of other users stay.
func TestWithdrawIsBounded(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		const many, each = 2500, 500
		producer := push.NewProducer(client, "", 0).WithShards(1)
		at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
		for first := 0; first < many; first += each {
			batch := make([]*push.Notification, each)
			for i := range batch {
				n := &push.Notification{ID: fmt.Sprint("n", first+i), App: "a", User: "u", Title: "t", Thread: fmt.Sprint("thread-", i%2), Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
				if i == 0 {
					n.User = "other"
				}
				batch[i] = n
			}
			for _, r := range producer.EnqueueAll(t.Context(), batch) {
				if r.Err != nil {
					t.Fatal(r.Err)
				}
			}
		}
		taken, calls := map[string]bool{}, 0
		for after, more := "", true; more; more = after != "" {
			done, err := at.Withdraw(t.Context(), "a", "u", after, push.Group{Thread: "thread-0"}.Has, store.TakeOptions{State: push.Cancelled, Read: push.Contents})
			if err != nil || len(done.Taken) > 1000 {
				t.Fatalf("%d taken, %v", len(done.Taken), err)
			}
			for _, one := range done.Taken {
				taken[one.ID] = true
			}
			after, calls = done.Next, calls+1
		}
		const want = many/2 - many/each
		if len(taken) != want || calls != 3 {
			t.Errorf("%d taken in %d calls, want %d", len(taken), calls, want)
		}
		if record, err := at.Lookup(t.Context(), "n0"); err != nil || record.State != push.Waiting {
			t.Errorf("another user's: %+v, %v", record, err)
		}
	})
}

// Notifications are accepted and taken while the key of their user's set has the wrong type.
func TestWrongTypeOfWaitsIsIgnored(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		at := storetest.First(t, store.NewRecords(client, "", 0).WithShards(1))
		must(t, client.Set(t.Context(), at.Key("waits:a\nu"), "not ours", 0).Err())
		n := &push.Notification{ID: "n", App: "a", User: "u", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "t"}}}
		must(t, second(push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)))
		must(t, second(at.Take(t.Context(), store.Ref{ID: "n"}, store.TakeOptions{State: push.Cancelled, Read: push.Contents})))
	})
}
