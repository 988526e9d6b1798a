package worker

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

const (
	// pollFresh is how often an idle lane looks for a job, on average.
	pollFresh = 450 * time.Millisecond
	// pollDelayed is how often the first lane looks for delayed jobs that are
	// due: see earliness.
	pollDelayed = 500 * time.Millisecond
	// never keeps the other lanes' pollers quiet.
	never = 24 * time.Hour
)

// newLane returns one asynq server. A server pulls one job a round trip, so
// several of them pull side by side; the first one alone looks after the
// delayed jobs.
func newLane(stopping context.Context, o *Options, client redis.UniversalClient, told *said, i int) *asynq.Server {
	delayed := time.Duration(never)
	if i == 0 {
		delayed = pollDelayed
	}
	return asynq.NewServerFromRedisClient(client, asynq.Config{
		Concurrency: (o.handlers() + o.Lanes - 1) / o.Lanes,
		Queues:      push.Queues(),
		BaseContext: func() context.Context {
			growStack()
			return stopping // what is cut off is put back, and must not go on
		},
		TaskCheckInterval:        pollFresh,
		DelayedTaskCheckInterval: delayed,
		ShutdownTimeout:          o.ShutdownTimeout,
		RetryDelayFunc:           retryDelay,
		IsFailure:                isFailure,
		Logger:                   asynqLog{o.RedisLog.With("lane", i), told},
		LogLevel:                 asynq.WarnLevel,
	})
}

// handlers is how many jobs a process has in hand at most: so many that those
// of slow providers, each before its own gate, leave places for the others.
func (o *Options) handlers() int {
	const most = 8192
	routes := 1
	for _, platforms := range o.Senders {
		routes += len(platforms)
	}
	return min(most, routes*(o.Concurrency+gateWaiting)+o.MaxWaiting)
}

// asynqLog hands asynq's words to slog. What it has to say of a job is ours to
// say, so it is heard only when something is wrong with the lane itself.
type asynqLog struct {
	log  *slog.Logger
	told *said // by all lanes
}

func (l asynqLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLog) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLog) Error(args ...any) { l.write(slog.LevelError, args) }
func (l asynqLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

func (l asynqLog) write(level slog.Level, args []any) {
	text := shortened(fmt.Sprint(args...))
	if strings.Contains(text, "NOT FOUND") { // another lane was faster
		level = slog.LevelDebug
	}
	if level > slog.LevelDebug && !l.told.first(text, time.Now()) {
		level = slog.LevelDebug
	}
	l.log.Log(context.Background(), level, "queue: "+text)
}

// shortened is asynq's text with the first of the tasks that it lists: there may be
// thousands.
func shortened(text string) string {
	const list = "tasks ["
	start := strings.Index(text, list)
	end := strings.LastIndex(text, "]: ")
	if start < 0 || end < start {
		return text
	}
	tasks := strings.Fields(text[start+len(list) : end])
	if len(tasks) < 2 {
		return text
	}
	return fmt.Sprintf("%s%s and %d more%s", text[:start+len(list)], tasks[0], len(tasks)-1, text[end:])
}

// sayAgain is after how long the same trouble is told again: while Redis is away
// every lane has as much to say of it several times a second.
const sayAgain = time.Minute

// said knows what was told when. Its zero value has told nothing.
type said struct {
	mu sync.Mutex
	at map[string]time.Time
}

// first reports whether the trouble was not told within sayAgain. What it is
// stands before the jobs, queues and errors that a text names.
func (s *said) first(text string, now time.Time) bool {
	if end := strings.IndexAny(text, ":=[\""); end >= 0 {
		text = text[:end]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if at, ok := s.at[text]; ok && now.Sub(at) < sayAgain {
		return false
	}
	if s.at == nil || len(s.at) >= 100 {
		s.at = make(map[string]time.Time)
	}
	s.at[text] = now
	return true
}
