package queue

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

// An idler is a server that has nothing to do, and the IDs of what it is handed.
type idler struct {
	*Server
	t       *testing.T
	redis   redis.UniversalClient
	handled chan string
}

func (s *idler) Handle(_ context.Context, job Job) error {
	s.handled <- job.ID
	return nil
}

// idling runs a server that asks for jobs so often without a word.
func idling(t *testing.T, client redis.UniversalClient, poll time.Duration) *idler {
	t.Helper()
	s := &idler{t: t, redis: client, handled: make(chan string, 1000), Server: NewServer(Config{
		Client: client, Records: push.NewRecords(client, "", 0), Lanes: 3, Handlers: 6, ShutdownTimeout: time.Second,
		Stalled: func(time.Time) []Stalled { return nil }, SetAside: func(push.State) {},
		Log: slog.New(slog.DiscardHandler), RedisLog: slog.New(slog.DiscardHandler),
	})}
	s.client.idle.poll = poll
	if err := s.Start(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// eventually waits for something that happens.
func (s *idler) eventually(what string, happens func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); !happens(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatal("never: " + what)
		}
	}
}

// rest waits until the server would hear a word for each queue.
func (s *idler) rest() {
	s.t.Helper()
	i := s.client.idle
	s.eventually("the server is idle", func() bool {
		heard := s.listens() && i.next().After(time.Now())
		for _, queue := range i.queues {
			heard = heard && s.redis.SIsMember(s.t.Context(), push.IdleKey(queue), i.channel).Val()
		}
		return heard
	})
}

// listens reports whether the server does, on whichever node.
func (s *idler) listens() bool {
	var n atomic.Int64
	count := func(ctx context.Context, node *redis.Client) error {
		n.Add(node.PubSubNumSub(ctx, s.client.idle.channel).Val()[s.client.idle.channel])
		return nil
	}
	switch client := s.redis.(type) {
	case *redis.Client:
		_ = count(s.t.Context(), client)
	case *redis.ClusterClient:
		_ = client.ForEachMaster(s.t.Context(), count)
	}
	return n.Load() == 1
}

// enqueue has a Producer enqueue a notification.
func (s *idler) enqueue(id string, p push.Priority) {
	s.t.Helper()
	s.eventually("enqueued", func() bool {
		_, err := push.NewProducer(s.redis, "", 0).Enqueue(s.t.Context(), &push.Notification{
			ID: id, App: "shop", User: "ada", Priority: p, Title: "t", Targets: []push.Target{{Platform: push.APNs, Token: "00fcab"}},
		})
		return err == nil
	})
}

// isHanded waits for a job.
func (s *idler) isHanded(id string) {
	s.t.Helper()
	select {
	case got := <-s.handled:
		if got != id {
			s.t.Fatalf("%s is handed out instead of %s", got, id)
		}
	case <-time.After(time.Minute):
		s.t.Fatalf("%s is never handed out", id)
	}
}

// No poll would find them.
func TestAWordWakesAnIdleServer(t *testing.T) {
	test := func(t *testing.T, client redis.UniversalClient, prefix string) {
		s := idling(t, client, never)
		for round := range 3 {
			s.rest()
			for _, p := range []push.Priority{push.Bulk, push.Critical, push.Default} {
				id := fmt.Sprint(prefix, p, round)
				s.enqueue(id, p)
				s.isHanded(id)
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

// What comes back to the queue gives a word too.
func TestAWordForWhatComesBack(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := idling(t, client, never)
		queue := push.Default.Queue()
		tasks := asynq.NewClientFromRedisClient(client)
		put := func(id string, in time.Duration) {
			t.Helper()
			if _, err := tasks.Enqueue(asynq.NewTask(push.TaskType, nil), asynq.TaskID(id), asynq.Queue(queue), asynq.ProcessIn(in)); err != nil {
				t.Fatal(err)
			}
		}
		s.rest()
		put("delayed", time.Second)
		s.isHanded("delayed")
		s.rest()
		put("woken", time.Hour)
		client.ZUnionStore(t.Context(), push.QueueKey(queue, "retry"), &redis.ZStore{Keys: []string{push.QueueKey(queue, "scheduled")}})
		if _, err := NewInspector(client).WakeAll(t.Context(), queue, []string{"woken"}); err != nil {
			t.Fatal(err)
		}
		s.isHanded("woken")
	})
}

// However many wait and however many come, each job is handed out once, and none is
// left for a poll.
func TestWordsForMany(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		const n = 300
		s := idling(t, client, never)
		others := idling(t, client, never)
		s.rest()
		others.rest()
		for i := range n {
			s.enqueue(fmt.Sprint(i), []push.Priority{push.Bulk, push.Critical, push.Default}[i%3])
		}
		seen := map[string]bool{}
		for range n {
			var id string
			select {
			case id = <-s.handled:
			case id = <-others.handled:
			case <-time.After(time.Minute):
				t.Fatalf("%d of %d are handed out", len(seen), n)
			}
			if seen[id] {
				t.Errorf("%s is handed out twice", id)
			}
			seen[id] = true
		}
	})
}

// A lost word, or none, costs a poll.
func TestALostWord(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AppendOnly())
	client := redistest.Connect(t, server.Options())
	s := idling(t, client, 300*time.Millisecond)
	for name, lose := range map[string]func(){
		"nobody is told of": func() {
			for _, queue := range s.client.idle.queues {
				client.Del(t.Context(), push.IdleKey(queue))
			}
		},
		"somebody else takes it": func() {
			for _, queue := range s.client.idle.queues {
				client.Del(t.Context(), push.IdleKey(queue))
				client.SAdd(t.Context(), push.IdleKey(queue), "crashed")
			}
		},
		"of another type": func() {
			for _, queue := range s.client.idle.queues {
				client.Set(t.Context(), push.IdleKey(queue), "", 0)
			}
		},
		"the connection is cut": func() { client.ClientKillByFilter(t.Context(), "TYPE", "pubsub") },
		"Redis restarts":        func() { server.Kill(t); server.Restart(t) },
	} {
		s.rest()
		lose()
		s.enqueue(name, push.Bulk)
		s.isHanded(name)
		for _, queue := range s.client.idle.queues {
			client.Del(t.Context(), push.IdleKey(queue)) // whatever its type
		}
	}
	s.rest()
	if _, err := asynq.NewClientFromRedisClient(client).Enqueue(asynq.NewTask(push.TaskType, nil), asynq.TaskID("asynq's"), asynq.Queue(push.Bulk.Queue())); err != nil {
		t.Fatal(err)
	}
	s.isHanded("asynq's")
}

// A server that waits ends at once, and is given no more words.
func TestShutdownWhileIdle(t *testing.T) {
	t.Parallel()
	redistest.Over(t, func(t *testing.T, client redis.UniversalClient) {
		s := idling(t, client, never)
		s.rest()
		s.Shutdown()
		for _, queue := range s.client.idle.queues {
			if n := client.SCard(t.Context(), push.IdleKey(queue)).Val(); n != 0 {
				t.Errorf("%d words for %s would get lost", n, queue)
			}
		}
	})
}

// A user of Redis's who may use no channel is told of, and jobs are found by asking.
func TestAUserWithoutChannels(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	admin := server.Client(t)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">secret", "~*", "+@all", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	options := server.Options()
	options.Username, options.Password = "worker", "secret"
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	var logged strings.Builder
	i := newIdle()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	i.listen(ctx, client, slog.New(slog.NewTextHandler(&logged, nil)))
	if logged.Len() > 0 {
		t.Errorf("of a server that ends: %s", logged.String())
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	i.listen(ctx, client, slog.New(slog.NewTextHandler(&logged, nil)))
	if !strings.Contains(logged.String(), "&asynq:*") {
		t.Errorf("logged %q", logged.String())
	}
	s := idling(t, client, 10*time.Millisecond)
	if _, err := push.NewProducer(client, "", 0).Enqueue(t.Context(), &push.Notification{
		ID: "one", App: "shop", User: "ada", Title: "t", Targets: []push.Target{{Platform: push.FCM, Token: "x"}},
	}); err != nil {
		t.Fatal(err)
	}
	if id := <-s.handled; id != "one" {
		t.Errorf("handed %q", id)
	}
}
