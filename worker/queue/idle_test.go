package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/eventually"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// An idler is an idle server. handled receives the IDs of its jobs.
type idler struct {
	*Server
	t       *testing.T
	redis   redis.UniversalClient
	handled chan string
	held    sync.RWMutex // while it is locked, no job ends
}

func (s *idler) Take(job Job) Work {
	return func(context.Context) Result {
		s.handled <- job.ID
		s.held.RLock()
		defer s.held.RUnlock()
		return Ended{Outcomes: []store.TargetOutcome{}}
	}
}

// idling starts a server with that poll interval.
func idling(t *testing.T, client redis.UniversalClient, poll time.Duration) *idler {
	t.Helper()
	c := configOf(t, client)
	c.Budget, c.ShutdownTimeout = NewBudget(6), time.Second
	s := &idler{t: t, redis: client, handled: make(chan string, 1000), Server: NewServer(c)}
	s.idle.poll, s.idle.echo, s.idle.limit = poll, 200*time.Millisecond, redistest.Patience
	s.Start(t.Context(), s)
	t.Cleanup(s.Shutdown)
	return s
}

// rest waits until the server is idle: it listens for wake-ups, and each queue has the idle flag, as the
// last pulls of all servers found the queue empty.
func (s *idler) rest() {
	s.t.Helper()
	i := s.idle
	eventually.Holds(s.t, "the server is idle", func() bool {
		heard := s.listening() > 0 && i.next().After(time.Now())
		for _, queue := range i.queues {
			heard = heard && s.redis.Get(s.t.Context(), i.shard.IdleKey(queue)).Val() == i.shard.Channel()
		}
		return heard
	})
}

// listening returns the number of servers that listen, on all nodes.
func (s *idler) listening() int64 {
	var n atomic.Int64
	channel := s.Records.Channel()
	count := func(ctx context.Context, node *redis.Client) error {
		count := node.PubSubNumSub
		if s.Records.Sharded() {
			count = node.PubSubShardNumSub
		}
		n.Add(count(ctx, channel).Val()[channel])
		return nil
	}
	switch client := s.redis.(type) {
	case *redis.Client:
		_ = count(s.t.Context(), client)
	case *redis.ClusterClient:
		_ = client.ForEachMaster(s.t.Context(), count)
	}
	return n.Load()
}

// enqueue enqueues a notification by a Producer.
func (s *idler) enqueue(id string, p push.Priority) {
	s.t.Helper()
	n := note(id)
	n.Priority = p
	eventually.Holds(s.t, "enqueued", func() bool {
		_, err := push.NewProducer(s.redis, "", 0).WithShards(1).Enqueue(s.t.Context(), n)
		return err == nil
	})
}

// enqueueByAsynq enqueues a job by a plain asynq client, which publishes no wake-up.
func (s *idler) enqueueByAsynq(id string, p push.Priority) {
	s.t.Helper()
	_, err := asynq.NewClientFromRedisClient(s.redis).Enqueue(asynq.NewTask(store.TaskType, nil), asynq.MaxRetry(store.MaxRetry), asynq.TaskID(id), asynq.Queue(s.Records.Queue(p.Queue())))
	must(s.t, err)
}

// publish publishes a wake-up to all servers.
func (s *idler) publish(p push.Priority) {
	publish := s.redis.Publish
	if s.Records.Sharded() {
		publish = s.redis.SPublish
	}
	publish(s.t.Context(), s.Records.Channel(), s.Records.IdleKey(p.Queue()))
}

// expectHandled waits until the job is handled.
func (s *idler) expectHandled(id string) {
	s.t.Helper()
	select {
	case got := <-s.handled:
		if got != id {
			s.t.Fatalf("%s is handled instead of %s", got, id)
		}
	case <-time.After(time.Minute):
		s.t.Fatalf("%s is never handled", id)
	}
}

// expectHandledCount waits until n jobs are handled.
func (s *idler) expectHandledCount(n int) {
	s.t.Helper()
	for i := range n {
		select {
		case <-s.handled:
		case <-time.After(time.Minute):
			s.t.Fatalf("%d of %d are handled", i, n)
		}
	}
}

// never is a poll interval that no test reaches.
const never = 24 * time.Hour

func TestNewJobWakesIdleServer(t *testing.T) {
	test := func(t *testing.T, client redis.UniversalClient, prefix string) {
		s := idling(t, client, never)
		for round := range 2 {
			s.rest()
			for _, p := range []push.Priority{push.Bulk, push.Critical, push.Default} {
				id := fmt.Sprint(prefix, p, round)
				s.enqueue(id, p)
				s.expectHandled(id)
			}
		}
	}
	redistest.OverAll(t, test)
	t.Run("sentinel", func(t *testing.T) {
		t.Parallel()
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: []string{redistest.StartSentinel(t, redistest.Start(t)).Addr()},
		})
		t.Cleanup(func() { _ = client.Close() })
		test(t, client, "")
	})
}

// A job that becomes due or is woken publishes a wake-up too.
func TestReturnedJobPublishesWakeUp(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	s := idling(t, client, never)
	queue := push.Default.Queue()
	put := func(id string, in time.Duration) {
		t.Helper()
		n := note(id)
		n.NotBefore = time.Now().Add(in)
		_, err := push.NewProducer(client, "", 0).WithShards(1).Enqueue(t.Context(), n)
		must(t, err)
	}
	s.rest()
	put("delayed", time.Second)
	s.expectHandled("delayed")
	s.rest()
	put("woken", time.Hour)
	client.ZUnionStore(t.Context(), s.Records.QueueKey(queue, "retry"), &redis.ZStore{Keys: []string{s.Records.QueueKey(queue, "scheduled")}})
	_, err := s.Records.WakeAll(t.Context(), queue, []store.Wake{{ID: "woken", At: time.Now()}})
	must(t, err)
	s.expectHandled("woken")
}

// The scripts that publish wake-ups know the poll interval.
func TestWakeIdleScriptContainsPollInterval(t *testing.T) {
	if want := fmt.Sprintf("local soon = %d\n", pollIdle.Microseconds()); !strings.Contains(store.WakeIdle, want) {
		t.Errorf("WakeIdle lacks %q", want)
	}
}

// A new critical job passes the waiting bulk jobs and finds free capacity.
func TestCriticalJobPassesBulkJobs(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	s := idling(t, client, never)
	s.rest()
	s.held.Lock()
	defer s.held.Unlock()
	for i := range 2 * MaxPull {
		s.enqueueByAsynq(fmt.Sprint(i), push.Bulk)
	}
	s.publish(push.Bulk)
	s.expectHandledCount(5) // of six
	s.enqueue("critical", push.Critical)
	s.expectHandled("critical")
}

// Bulk jobs are pulled while critical jobs keep arriving.
func TestBulkJobsArePulledAmongCriticalJobs(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	s := idling(t, client, never)
	s.rest()
	s.held.Lock()
	s.enqueueByAsynq("bulk", push.Bulk)
	for i := range 200 {
		s.enqueueByAsynq(fmt.Sprint(i), push.Critical)
	}
	s.publish(push.Critical)
	s.publish(push.Bulk)
	s.held.Unlock()
	for range 150 {
		if <-s.handled == "bulk" {
			return
		}
	}
	t.Error("the bulk job waits for all critical ones")
}

// After a lost or missing wake-up, the next poll finds the job.
func TestPollFindsJobAfterLostWakeUp(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AppendOnly())
	client := redistest.Connect(t, server.Options())
	s := idling(t, client, 300*time.Millisecond)
	for name, lose := range map[string]func(){
		"no idle flag": func() {
			for _, queue := range s.idle.queues {
				client.Del(t.Context(), s.Records.IdleKey(queue))
			}
		},
		"idle flag of another type": func() {
			for _, queue := range s.idle.queues {
				client.Del(t.Context(), s.Records.IdleKey(queue))
				client.SAdd(t.Context(), s.Records.IdleKey(queue), "")
			}
		},
		"the connection is cut": func() { client.ClientKillByFilter(t.Context(), "TYPE", "pubsub") },
		"Redis restarts":        func() { server.Kill(t); server.Restart(t) },
	} {
		s.rest()
		lose()
		s.enqueue(name, push.Bulk)
		s.expectHandled(name)
	}
	s.rest()
	s.enqueueByAsynq("asynq's", push.Bulk)
	s.expectHandled("asynq's")
}

// All servers get each wake-up: a server without capacity does not keep the wake-up from other servers.
func TestAllServersGetWakeUp(t *testing.T) {
	t.Parallel()
	client := redistest.One(t)
	busy := idling(t, client, never)
	busy.rest()
	busy.held.Lock()
	defer busy.held.Unlock()
	for i := range 6 {
		busy.enqueue(fmt.Sprint(i), push.Default)
		busy.expectHandled(fmt.Sprint(i))
	}
	free := idling(t, client, never)
	free.rest()
	free.enqueue("critical", push.Critical)
	free.expectHandled("critical")
}

// If Redis's ACL allows no channel, the server logs a warning and polls.
func TestServerWithoutChannelPermissionPolls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	must(t, admin.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all", "resetchannels").Err())
	options := server.Options()
	options.Username, options.Password = "worker", "secret"
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	var logged eventually.Log
	i := newIdle(new(store.Shard))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i.listen(ctx, client, slog.New(slog.NewTextHandler(&logged, nil)))
	if logged.String() != "" {
		t.Errorf("a stopping server logs %s", logged.String())
	}
	var listening sync.WaitGroup
	ctx, cancel = context.WithCancel(t.Context())
	listening.Go(func() { i.listen(ctx, client, slog.New(slog.NewTextHandler(&logged, nil))) })
	eventually.Holds(t, "the log names the channels", func() bool { return strings.Contains(logged.String(), "&"+shard.AsynqKeys) })
	cancel()
	listening.Wait()
	s := idling(t, client, 10*time.Millisecond)
	s.enqueue("one", push.Default)
	s.expectHandled("one")
}
