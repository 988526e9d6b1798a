package queue

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/repeats"
	"github.com/pushpace/pushpace/internal/base/shard"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/worker/roles"
)

// A Job is one that asynq has handed out.
type Job struct {
	ID, Queue string
	Payload   []byte
	Headers   map[string]string
	// Retries is how often asynq has counted a failure of the job: an attempt that
	// is to be repeated, or a worker that crashed with it.
	Retries int
	// Back is when it went back to the queue last, in whole seconds; zero for one
	// that comes for the first time.
	Back time.Time
	// Last is its last Return.
	Last Return
	// Term is the one in which it was pulled, and At the server that has pulled it.
	Term *Term
	At   *Server
	// Begin takes it off what is on its way to its route. It is called, once at least, when the
	// route knows that it comes, or it does not come.
	Begin func()
}

// A Handler works off jobs.
type Handler interface {
	// Take takes a job in hand. The jobs of a queue are taken one after another, in the
	// order in which they lie there; what they come to is worked off side by side.
	Take(job Job) Work
}

// Work works off a job. A nil error ends the job; a Return brings it back.
type Work func(ctx context.Context) error

// Config says what a Server works with. All of it is required.
type Config struct {
	Client redis.UniversalClient
	// Records are the shard's whose queues these are.
	Records *store.Shard
	// Role returns how the process serves the shard.
	Role func() roles.Role
	// Hands are those of all servers of the process.
	Hands *Hands
	// ShutdownTimeout bounds the end of what is under way.
	ShutdownTimeout time.Duration
	// Bounds returns for which routes how many more may be pulled from a queue; of those that
	// it leaves out any number may.
	Bounds func(queue string, now time.Time) []Bound
	// Parked is told of which routes jobs are parked.
	Parked func(routes []string)
	// SetAside is told how a job ends that asynq never sees.
	SetAside func(push.State)
	Log      *slog.Logger
	// RedisLog is told what fails for want of Redis.
	RedisLog *slog.Logger
}

// A Server pulls a shard's jobs and has them handled.
type Server struct {
	config Config
	client *client
	check  func() error
	asynq  *asynq.Server // nil before it has started

	listening sync.WaitGroup
	signing   sync.WaitGroup
	signOff   context.CancelCauseFunc
}

// NewServer returns a server that has not started yet.
func NewServer(c Config) *Server {
	s := &Server{config: c, client: newClient(c), check: Check, signOff: func(error) {}}
	s.client.server = s
	return s
}

// Records are the shard's.
func (s *Server) Records() *store.Shard { return s.config.Records }

const (
	// askAgain is about how long asynq sleeps after it has found nothing: see idle.go.
	askAgain = time.Millisecond
	// pollDelayed is how often asynq looks for delayed jobs that other clients have put there.
	pollDelayed = 950 * time.Millisecond
)

// Start begins to pull, and returns once asynq's server runs. What the handler has in
// hand when ctx ends is cut off, and must not go on: it is put back on the queue.
func (s *Server) Start(ctx context.Context, h Handler) error {
	if err := s.check(); err != nil {
		return err
	}
	s.client.handler = h
	s.sign()
	s.listening.Go(func() { s.client.idle.look(s.client.ending, s.client.UniversalClient) })
	s.listening.Go(func() { s.client.idle.listen(s.client.ending, s.client.UniversalClient, s.config.RedisLog) })
	server := asynq.NewServerFromRedisClient(s.client, asynq.Config{
		Concurrency:              s.config.Hands.most,
		Queues:                   s.client.shard.Queues(),
		BaseContext:              func() context.Context { growStack(); return ctx },
		TaskCheckInterval:        askAgain,
		DelayedTaskCheckInterval: pollDelayed,
		JanitorInterval:          time.Minute,
		ShutdownTimeout:          s.config.ShutdownTimeout,
		RetryDelayFunc:           retryDelay,
		IsFailure:                isFailure,
		Logger:                   asynqLog{s.config.RedisLog, &s.client.repeats},
		LogLevel:                 asynq.WarnLevel,
	})
	if err := server.Start(processor{s.client}); err != nil {
		s.Shutdown()
		return err
	}
	s.asynq = server
	return nil
}

// Shutdown stops pulling, lets what is under way end, within ShutdownTimeout, and
// puts the rest back on the queue.
func (s *Server) Shutdown() {
	defer s.client.repeats.Close()
	s.client.end()
	if s.asynq != nil {
		s.asynq.Stop()
	}
	var all sync.WaitGroup
	all.Go(s.listening.Wait)
	all.Go(func() { s.client.idle.leave(context.Background(), s.client.UniversalClient, s.client.idle.queues) })
	if s.asynq != nil {
		all.Go(s.asynq.Shutdown)
	}
	all.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), putBackTimeout)
	defer cancel()
	var left error
	if s.client.left.Load() {
		left = errLeft
	}
	for queue := range shard.Queues() {
		if err := s.client.putBack(ctx, queue); err != nil {
			s.config.Log.Warn("jobs pulled ahead are not put back, and come back when this worker is taken for dead", "queue", queue, "error", err)
			left = errLeft
		}
	}
	s.signOff(left)
	s.signing.Wait()
}

// sign leaves the worker's signs of life from now on. The first ones come before anything
// is pulled, unless Redis does not answer.
func (s *Server) sign() {
	ctx, cancel := context.WithCancelCause(context.Background())
	s.signOff = cancel
	var first sync.WaitGroup
	first.Add(1)
	s.signing.Go(func() { s.client.keep(ctx, s.client.life, first.Done) })
	first.Wait()
}

const putBackTimeout = 3 * time.Second

// Settle settles a notification that is delivered in the step that ends its job,
// which is done as soon as the handler returns.
func (s *Server) Settle(id string, outcomes []store.TargetOutcome) {
	s.client.delivered.note(id, outcomes)
}

// Settling reports whether this process has delivered the notification, and its
// job is not done: what comes back is not to be sent again.
func (s *Server) Settling(id string) bool {
	outcomes, ok := s.client.delivered.of(id)
	if ok {
		s.client.delivered.note(id, outcomes) // it may come again
	}
	return ok
}

// Persist repeats a write that fails for so long at most: what was sent and is not
// recorded would be sent again. Nothing is pulled while Redis refuses it.
func (s *Server) Persist(ctx context.Context, limit time.Duration, write func() error) error {
	return s.client.refusals.persist(ctx, limit, write)
}

// Refused reports whether what came from that queue is not to be sent now, since
// Redis refuses to record it.
func (s *Server) Refused(queue string) bool { return s.client.refusals.held(queue) }

// Pulls reports whether the last pull was answered.
func (s *Server) Pulls() bool { return !s.client.failed.Load() }

// A processor has the jobs that asynq hands out worked off.
type processor struct{ client *client }

// ProcessTask implements asynq.Handler.
func (p processor) ProcessTask(ctx context.Context, _ *asynq.Task) (err error) {
	growStack()
	id, _ := asynq.GetTaskID(ctx)
	name, _ := asynq.GetQueueName(ctx)
	queue := p.client.shard.Plain(name)
	p.client.config.Hands.take(queue)
	defer p.client.config.Hands.free(queue)
	defer func() {
		if cause := recover(); cause != nil {
			err = p.client.panicked(ctx, id, cause)
		}
	}()
	job, ok := p.client.works.take(id)
	if !ok {
		return ErrLost
	}
	defer job.begin()
	return job.work(ctx)
}

// panicked returns a job over which there was a panic. What that says may be of the
// notification, unless the Go runtime says it.
func (c *client) panicked(ctx context.Context, id string, cause any) error {
	said := fmt.Sprintf("a panic: %T", cause)
	if err, ok := cause.(runtime.Error); ok {
		said = "a panic: " + err.Error()
	}
	stack := debug.Stack()
	c.repeats.Tell(ctx, c.config.Log, slog.LevelError, "a panic over a job, which comes back: please report it", nil,
		slog.String("task", id), slog.String("said", said), slog.String("stack", string(stack[:min(len(stack), longestStack)])))
	return &Return{Why: Panicked, Detail: said, After: Again, Failed: true}
}

// longestStack is how many bytes are logged of a stack.
const longestStack = 4 << 10

// growStack makes room on the stack of one of asynq's goroutines, of which each
// job has two, while there is next to nothing on it. A stack starts small and
// doubles when it is full, and what is on it is then copied, frame by frame: done
// deep in a job, that takes a twentieth of a worker's processor time. A job needs
// between 8 and 16 KiB, and stacks have powers of two.
//
//go:noinline
func growStack() {
	var room [8 << 10]byte
	runtime.KeepAlive(&room)
}

// asynqLog hands asynq's words to slog. What it has to say of a job is ours to
// say, so it is heard only when something is wrong with asynq's server itself.
type asynqLog struct {
	log     *slog.Logger
	repeats *repeats.Log // it has the same trouble several times a second
}

func (l asynqLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLog) Warn(args ...any)  { l.write(slog.LevelWarn, args) }
func (l asynqLog) Error(args ...any) { l.write(slog.LevelError, args) }
func (l asynqLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

// longest is how many bytes are logged of a text: its begin and its end, which say
// what has failed and why.
const longest = 400

func (l asynqLog) write(level slog.Level, args []any) {
	text := fmt.Sprint(args...)
	if strings.Contains(text, "NOT FOUND") || strings.Contains(text, "cancelation channel") { // another worker was faster; see client.Subscribe
		level = slog.LevelDebug
	}
	message := "queue: " + subject(text)
	if len(text) > longest { // it may list thousands of tasks
		text = text[:longest/2] + " … " + text[len(text)-longest/2:]
	}
	more := []slog.Attr{slog.String("said", text)}
	if level == slog.LevelDebug {
		l.log.LogAttrs(context.Background(), level, message, more...)
		return
	}
	l.repeats.Tell(context.Background(), l.log, level, message, nil, more...)
}

// subject is what a text of asynq's is about, which stands before the tasks, queues and
// errors that it names.
func subject(text string) string {
	const most = 3
	if end := strings.IndexAny(text, ":=[\""); end >= 0 {
		text = text[:end]
	}
	words := strings.Fields(text)
	return strings.Join(words[:min(len(words), most)], " ")
}
