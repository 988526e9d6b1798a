package redisconn

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/config"
)

const (
	// lookEvery is how often a Redis is looked at that is well, as far as its
	// commands tell.
	lookEvery = 10 * time.Second
	// lookAgain is how often it is looked at in trouble, and for how long it has to
	// be well for the trouble to be over.
	lookAgain = time.Second
	// lookTimeout bounds a look.
	lookTimeout = 5 * time.Second
)

// WatchOptions say what a Watch tells.
type WatchOptions struct {
	// Name is what the log calls it: "Redis".
	Name string
	// Effect is what its trouble means: "nothing is accepted".
	Effect string
	Log    *slog.Logger
}

// A Watch is the one who tells of a Redis in trouble: a line when it begins, with
// the cause and what to do, and one when it is over. Any command's error that
// tells of trouble has it look at once, with a command of its own, a write: a
// Redis that is full still reads. Close it.
type Watch struct {
	o     WatchOptions
	write func(context.Context) error
	cfg   config.Redis

	suspected chan struct{}
	stop      context.CancelFunc
	looking   sync.WaitGroup

	mu    sync.Mutex
	state condition
}

// A condition is what is known of a Redis. The zero value is that it is well.
type condition struct {
	trouble Trouble
	since   time.Time // when the trouble began
	well    time.Time // since when it has been well again; zero for not
	suspect bool      // an error tells of trouble, and it was not looked at since
	cleared time.Time // when a look found nothing behind such an error
}

// Watch begins to watch the Redis.
func (c *Conn) Watch(cfg config.Redis, o WatchOptions) *Watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watch{o: o, cfg: cfg, suspected: make(chan struct{}, 1), stop: stop}
	w.write = func(ctx context.Context) error { return write(ctx, c.Client, cfg.Prefix) }
	c.Client.AddHook(listener{w})
	w.looking.Go(func() { w.run(ctx) })
	return w
}

// writes is how many keys a look writes on a Cluster, to meet all of its nodes.
const writes = 16

// write writes what nobody reads.
//
// The key is PREFIX:probe, a text; on a Cluster PREFIX:{probe-0} to 15.
func write(ctx context.Context, c redis.UniversalClient, prefix string) error {
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		return c.Set(ctx, prefix+":probe", 1, lookEvery).Err()
	}
	if err := ping(ctx, cluster); err != nil {
		return err
	}
	pipe := cluster.Pipeline()
	for i := range writes {
		pipe.Set(ctx, prefix+":{probe-"+strconv.Itoa(i)+"}", 1, lookEvery)
	}
	_, err := pipe.Exec(ctx)
	return err
}

// Close ends it.
func (w *Watch) Close() error {
	w.stop()
	w.looking.Wait()
	return nil
}

func (w *Watch) run(ctx context.Context) {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.suspected:
		case <-timer.C:
		}
		w.Look(ctx)
		if w.Trouble() != None {
			timer.Reset(lookAgain)
		} else {
			timer.Reset(lookEvery)
		}
	}
}

// Look looks at the Redis now, and answers what trouble it is in.
func (w *Watch) Look(ctx context.Context) Trouble {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := w.write(ctx)
	if errors.Is(err, context.Canceled) {
		return w.Trouble()
	}
	trouble := TroubleOf(err)
	if trouble == None && err != nil && !refused(err) {
		trouble = Away
	}
	w.found(trouble, err, time.Now())
	return trouble
}

// found takes in what a look has found.
func (w *Watch) found(trouble Trouble, err error, now time.Time) {
	w.mu.Lock()
	before := w.state
	w.state = before.next(trouble, now)
	after := w.state
	w.mu.Unlock()
	switch {
	case after.trouble == None && before.trouble != None:
		w.o.Log.Info(w.o.Name+" is well again", "address", w.cfg.Address.String(), "was", string(before.trouble), "lasted", now.Sub(before.since).Round(time.Millisecond))
	case trouble != None && after.trouble != before.trouble && !(trouble == Starting && before.trouble != None):
		w.o.Log.Error(w.o.Name+" "+trouble.Says()+": "+w.o.Effect,
			"address", w.cfg.Address.String(), "trouble", string(trouble), "error", explain(err, w.cfg))
	}
}

// next is the condition after a look.
func (c condition) next(trouble Trouble, now time.Time) condition {
	if c.suspect && trouble == None {
		c.cleared = now
	}
	c.suspect = false
	switch {
	case trouble != None:
		if c.trouble == None {
			c.since = now
		}
		c.trouble, c.well = trouble, time.Time{}
	case c.trouble == None:
	case c.well.IsZero():
		c.well = now
	case now.Sub(c.well) >= lookAgain:
		c = condition{}
	}
	return c
}

// Trouble answers what trouble it is in, as far as it is known.
func (w *Watch) Trouble() Trouble {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.trouble
}

// tells reports whether trouble is told of, or is about to be.
func (w *Watch) tells() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state.trouble != None || w.state.suspect
}

// heard takes in a command's error.
func (w *Watch) heard(err error) {
	if err == nil || TroubleOf(err) == None {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.state.suspect || w.state.trouble != None || time.Since(w.state.cleared) < lookAgain {
		return
	}
	w.state.suspect = true
	select {
	case w.suspected <- struct{}{}:
	default:
	}
}

// A listener has the errors of a client's commands heard.
type listener struct{ *Watch }

func (listener) DialHook(next redis.DialHook) redis.DialHook { return next }

func (l listener) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		l.heard(err)
		return err
	}
}

func (l listener) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if err != nil {
			for _, cmd := range cmds {
				l.heard(cmd.Err())
			}
		}
		return err
	}
}
