package queue

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/asynqwire"
	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/redistest"
	"github.com/pushpace/pushpace/push"
)

var update = flag.Bool("update", false, "write testdata/asynq.golden")

// guide is what to do about another asynq.
const guide = `asynq does not speak to Redis as asynq ` + asynqwire.Version + ` does.

For each script that differs, compare asynq's internal/rdb/rdb.go at both versions:
  enqueueCmd           ledger/accept.go, enqueueScript does the same and the record's part,
                       and wakes an idle worker
  scheduleCmd          ledger/accept.go, enqueueScript does the same and the record's part
  dequeueCmd           pull.go, pullScript does the same for several jobs
  doneCmd              ledger/done.go, doneScript does the same for several jobs and settles;
                       replaced.go, endScript the same for a job that the worker still has
  requeueCmd           replaced.go, cutOffScript does the same for a job that the worker
                       still has, and counts a failure
  forwardCmd           replaced.go, forwardScript does the same, of both sets at
                       once, and knows no groups
  listLeaseExpiredCmd  replaced.go, overScript does the same page by page
  retryCmd             replaced.go, returnScript does the same for a job that the worker
                       still has; returnJob looks at its keys and args[1], and runs it as
                       it is where a lease is over; asynqwire.Envelope reads the message
  ZADD … XX            a lease: handOut in pull.go is shorter, insistFor in client.go longer
Bring ours in line, then the hashes in scripts.go and internal/base/asynqwire/queues.go, then
asynqwire.Version, and write the new golden file with: go test ./worker/queue -run TestAsynqIsTheOneWeKnow -update
`

// TestAsynqIsTheOneWeKnow pins what asynq's client and server do on a real Redis:
// the texts, keys and arguments of the scripts that are replaced or relied upon.
func TestAsynqIsTheOneWeKnow(t *testing.T) {
	t.Parallel()
	options := redistest.Shared(t).Options()
	options.DB = redistest.Database(t)
	client := redistest.Connect(t, options)
	seen := &transcript{began: time.Now(), scripts: map[string]string{}, extended: make(chan struct{})}
	redistest.Hook(client, seen)
	queue, tasks := push.Default.Queue(), asynq.NewClientFromRedisClient(client)
	enqueue := func(id string, more ...asynq.Option) {
		t.Helper()
		_, err := tasks.Enqueue(asynq.NewTask(asynqwire.TaskType, []byte("payload")), append(more, asynq.TaskID(id), asynq.Queue(queue), asynq.MaxRetry(asynqwire.MaxRetry))...)
		if err != nil {
			t.Fatal(err)
		}
	}
	enqueue("done")
	enqueue("retried")
	enqueue("cut-off", asynq.ProcessIn(time.Second))
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: 2, Queues: map[string]int{queue: 1}, TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 10 * time.Millisecond,
		ShutdownTimeout: time.Millisecond, Logger: asynqLog{slog.New(slog.DiscardHandler), new(repeats.Log)},
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return time.Hour },
	})
	if err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		switch id, _ := asynq.GetTaskID(ctx); id {
		case "retried":
			return errors.New("why")
		case "cut-off":
			<-ctx.Done()
		}
		return nil
	})); err != nil {
		t.Fatal(err)
	}
	select {
	case <-seen.extended: // the lease of what is in hand, by the second heartbeat
	case <-time.After(time.Minute):
		t.Error(guide + "\nNo lease is extended within a minute.")
	}
	server.Shutdown()
	got := seen.text()
	const golden = "testdata/asynq.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	const section = "=== "
	now, known := strings.Split(got, section), strings.Split(string(want), section)
	for _, text := range now {
		if !slices.Contains(known, text) {
			t.Errorf("%s\nNow it does\n%s", guide, text)
		}
	}
	for _, text := range known {
		if !slices.Contains(now, text) {
			t.Errorf("%s\nIt no longer does\n%s", guide, text)
		}
	}
	if err := Check(); err != nil {
		t.Errorf("the start: %v", err)
	}
}

// Another script is refused, whatever it is called with.
func TestAnUnknownScriptIsRefused(t *testing.T) {
	t.Parallel()
	s := NewServer(Config{Records: new(ledger.Shard), Hands: NewHands(8), RedisLog: slog.New(slog.DiscardHandler)})
	err := s.client.EvalSha(t.Context(), strings.Repeat("0", 40), []string{asynqwire.QueueKey("q", "pending")}, "id").Err()
	if err == nil || !strings.Contains(err.Error(), asynqwire.Version) {
		t.Errorf("%v", err)
	}
	r := &rehearsal{missing: []string{"dequeueCmd"}}
	if err := r.verdict(); err == nil || !strings.Contains(err.Error(), "does not run dequeueCmd") {
		t.Errorf("%v", err)
	}
}

// The start is refused by an asynq of which any one script is another.
func TestAnotherAsynqStopsTheStart(t *testing.T) {
	t.Parallel()
	known := maps.Clone(scripts)
	known[asynqwire.EnqueueHash], known[asynqwire.ScheduleHash] = "enqueueCmd", "scheduleCmd"
	for _, hash := range []string{asynqwire.EnqueueHash, asynqwire.ScheduleHash, dequeueHash, doneHash, retryHash, requeueHash, forwardHash, leasesHash} {
		others := maps.Clone(known)
		delete(others, hash)
		if err := check(others); err == nil || !strings.Contains(err.Error(), hash) || !strings.Contains(err.Error(), asynqwire.Version) {
			t.Errorf("%s: %v", known[hash], err)
		}
	}
	s := NewServer(Config{Records: new(ledger.Shard), RedisLog: slog.New(slog.DiscardHandler), Hands: NewHands(1)})
	refusal := errors.New("another asynq")
	s.check = func() error { return refusal }
	if err := s.Start(t.Context(), nil); !errors.Is(err, refusal) {
		t.Error(err)
	}
}

// The version that is told is the one that the scripts were compared with.
func TestVersionOfAsynq(t *testing.T) {
	t.Parallel()
	module, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.Contains(string(module), "github.com/hibiken/asynq "+asynqwire.Version+"\n") {
		t.Errorf("go.mod has another asynq than %s (%v)", asynqwire.Version, err)
	}
}

// A transcript is a client's hook that writes down each script at its first run, and
// has asynq tell its text.
type transcript struct {
	began    time.Time
	extended chan struct{}

	mu      sync.Mutex
	scripts map[string]string // by name
}

func (*transcript) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*transcript) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (s *transcript) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "zadd" && args[2] == "xx" && s.put("ZADD", s.line("ARGV ", args[1:])) {
			close(s.extended)
		} else if name, known := nameOf(args[min(1, len(args)-1)]); known && cmd.Name() == "evalsha" {
			n, _ := args[2].(int)
			text := s.line("KEYS ", args[3:3+n]) + s.line("ARGV ", args[3+n:])
			if s.put(name, text) {
				cmd.SetErr(noScript("NOSCRIPT"))
				return cmd.Err()
			}
		} else if cmd.Name() == "eval" {
			text := fmt.Sprint(args[1])
			name, _ := nameOf(redis.NewScript(text).Hash())
			s.mu.Lock()
			if called := s.scripts[name]; called != "" && !strings.HasSuffix(called, text) {
				s.scripts[name] += text
			}
			s.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}

type noScript string

func (e noScript) Error() string { return string(e) }
func (noScript) RedisError()     {}

// nameOf is the script's of that hash, where it is one to be pinned.
func nameOf(hash any) (string, bool) {
	text := fmt.Sprint(hash)
	switch text {
	case asynqwire.EnqueueHash:
		return "enqueueCmd", true
	case asynqwire.ScheduleHash:
		return "scheduleCmd", true
	}
	return scripts[text], slices.Contains([]string{dequeueHash, doneHash, retryHash, requeueHash, forwardHash, leasesHash}, text)
}

// put notes something at its first time.
func (s *transcript) put(name, text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scripts[name] != "" {
		return false
	}
	s.scripts[name] = text
	return true
}

func (s *transcript) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	names := make([]string, 0, len(s.scripts))
	for name := range s.scripts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "=== %s\n%s\n", name, strings.TrimSpace(s.scripts[name]))
	}
	return b.String()
}

// line is keys or arguments, with instants told by how far they are from now.
func (s *transcript) line(what string, values []any) string {
	var words []string
	for _, v := range values {
		words = append(words, s.word(v))
	}
	return what + strings.Join(words, " ") + "\n"
}

func (s *transcript) word(v any) string {
	number := int64(0)
	switch v := v.(type) {
	case []byte:
		e, err := asynqwire.ReadEnvelope(string(v))
		return fmt.Sprintf("message{payload %s, retried %d, retry %d, error %q, back %t, timeout %d, %v}", e.Payload, e.Retried, e.Retry, e.Error, !e.Back.IsZero(), e.Timeout, err)
	case string:
		for _, day := range []time.Time{s.began, s.began.Add(time.Minute)} {
			v = strings.ReplaceAll(v, day.UTC().Format(time.DateOnly), "DAY")
		}
		return v
	case int64:
		number = v
	case float64:
		number = int64(v)
	default:
		return fmt.Sprint(v)
	}
	now := time.Now()
	for _, unit := range []struct {
		name string
		left int64
	}{{"s", number - now.Unix()}, {"ns", (number - now.UnixNano()) / int64(time.Second)}} {
		for name, at := range map[string]time.Duration{"now": 0, "now+30s": 30 * time.Second, "now-30s": -30 * time.Second, "now+1h": time.Hour, "now+90d": 90 * 24 * time.Hour} {
			if off := unit.left - int64(at/time.Second); off >= -3 && off <= 1 {
				return name + "(" + unit.name + ")"
			}
		}
	}
	if number == math.MaxInt64 {
		return "max"
	}
	return fmt.Sprint(number)
}
