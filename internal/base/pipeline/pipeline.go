// Package pipeline lets concurrent callers share pipelines to a Redis server:
// the more commands are made at once, the fewer system calls and wake-ups each
// of them costs, and a lone command leaves at once.
//
// Share makes a client of which every command goes this way, of a Cluster every script;
// who has commands that belong together finds their Pipeline with For, and hands them over
// as a Group. The lanes, one goroutine each, are the only ones that send; a Group is theirs
// from Do until Do returns.
//
// go-redis pipelines by itself too (AutoPipeline), single commands as fast. It does
// not do what is relied on here:
//   - A Group stays together, a transaction included, three times as fast as on a
//     connection of its own with 64 callers. There a MULTI leaves the pipeline.
//   - What a Group holds is decided when it leaves (Prepare): a claim's stamp, and
//     the jobs that end by one command.
//   - Nobody waits for long: with a Redis that accepts and never answers, 500
//     callers have their error after one time-out, there after eight.
//
// A caller waits for twice the time-out at most. If its context ends before three quarters of
// the time-out, its command gets a connection of its own and ends with the context.
package pipeline

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/redisreply"
)

// Options configure a Pipeline. The zero value is ready for use.
type Options struct {
	// Lanes is how many pipelines may be under way at once. 0 means 1, which
	// makes the fewest system calls; more help where a round trip is long.
	Lanes int
	// Timeout bounds a pipeline's round trip, or on connections of redisconn the wait
	// for the next of its answers; the client needs ContextTimeoutEnabled for it to hold.
	// 0 means one second.
	Timeout time.Duration
}

// bound is the time-out.
func (o Options) bound() time.Duration {
	if o.Timeout <= 0 {
		return time.Second
	}
	return o.Timeout
}

// A Pipeline sends groups of commands. Groups that are handed over while every
// lane is under way share the next pipeline.
type Pipeline struct {
	client  *redis.Client
	timeout time.Duration
	queue   chan *Group
	gate    *gate // nil where there is one server: whoever waits for it waits for nothing else

	mu     sync.RWMutex // held for reading while a group is handed over
	closed bool
	lanes  sync.WaitGroup
}

const (
	// batchCommands bounds the commands that share a pipeline, but for the last
	// group's.
	batchCommands = 512
	// batchPrepared is how many prepared groups share one at least, where so many wait,
	// and a third of those that wait: with fewer the lanes work side by side, with more
	// there are fewer system calls.
	batchPrepared = 16
	// mostPrepared bounds them: what a group holds that is prepared is not known before.
	mostPrepared = 64
	// yields is how often a lane lets others run before it sends: who has just had an
	// answer is about to ask again, and is not always next.
	yields = 3
	// waiting bounds the groups that wait for a lane; more block their callers.
	waiting = 4096
)

// ErrClosed means that the pipeline is closed.
var ErrClosed = errors.New("pipeline: closed")

// A Group is commands that are executed one after another, with commands of
// other groups before and after, but not between them. It may be used again
// once Do has returned.
type Group struct {
	// Commands are sent in this order. Their replies and errors are in them.
	Commands []redis.Cmder
	// Prepare, when it is not nil, is called just before the group is sent, and may
	// set Commands then. It must return at once.
	Prepare func()

	done chan struct{}
	err  error
}

// New returns a pipeline on the client, which stays the caller's.
func New(client *redis.Client, o Options) *Pipeline {
	if o.Lanes <= 0 {
		o.Lanes = 1
	}
	p := &Pipeline{client: client, timeout: o.bound(), queue: make(chan *Group, waiting)}
	for range o.Lanes {
		p.lanes.Go(p.run)
	}
	return p
}

// Close ends the pipeline once what is under way has ended.
func (p *Pipeline) Close() {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if !closed {
		close(p.queue)
	}
	p.lanes.Wait()
}

// Closed reports whether the pipeline has been closed.
func (p *Pipeline) Closed() bool {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.closed
}

// hurries reports whether ctx may end long before a pipeline gives up. A quarter is left for
// contexts that were made with the pipeline's own time-out.
func (o Options) hurries(ctx context.Context) bool {
	deadline, some := ctx.Deadline()
	return some && time.Until(deadline) < o.bound()*3/4
}

// Hurries reports whether a group for ctx is not for this pipeline, as ctx may end before it
// is answered: its commands are for a connection of their own.
func (p *Pipeline) Hurries(ctx context.Context) bool { return Options{Timeout: p.timeout}.hurries(ctx) }

// Do sends the group and waits for its replies. It returns the error of the
// connection, if any: whether the commands were executed is then not known. A
// command's own error is in the command. It returns within about twice the
// time-out when Redis accepts and never answers, and at once while a Cluster's
// master is known to be away.
func (p *Pipeline) Do(g *Group) error {
	if p.gate == nil {
		return p.do(g)
	}
	tries, err := p.gate.enter()
	switch {
	case err == nil:
		err = p.do(g)
		p.gate.leave(tries, err)
		return err
	case errors.Is(err, acknowledged.ErrUnacknowledged) && g.Prepare == nil && acknowledged.Reads(g.Commands):
		return p.do(g) // which no replica is needed for
	}
	return err
}

func (p *Pipeline) do(g *Group) error {
	if g.done == nil {
		g.done = make(chan struct{}, 1)
	}
	g.err = nil
	p.mu.RLock()
	if p.closed {
		p.mu.RUnlock()
		return ErrClosed
	}
	p.queue <- g
	p.mu.RUnlock()
	<-g.done
	return g.err
}

func (p *Pipeline) run() {
	var batch []*Group
	var cmds []redis.Cmder
	for first := range p.queue {
		for range yields { // those who are about to ask share this one
			runtime.Gosched()
		}
		batch = p.gather(append(batch[:0], first))
		if err := p.send(batch, &cmds); err != nil {
			// Those who wait behind would wait in vain, one time-out after another.
			p.refuse(err)
		}
		for _, g := range batch {
			g.done <- struct{}{}
		}
		clear(batch)
	}
}

// prepared is 1 for a group that is prepared.
func (g *Group) prepared() int {
	if g.Prepare == nil {
		return 0
	}
	return 1
}

// gather adds the groups that wait.
func (p *Pipeline) gather(batch []*Group) []*Group {
	prepared := batch[0].prepared()
	for n := len(batch[0].Commands); n < batchCommands && prepared < min(batchPrepared+len(p.queue)/2, mostPrepared); {
		select {
		case g, ok := <-p.queue:
			if !ok {
				return batch
			}
			batch = append(batch, g)
			n += max(1, len(g.Commands))
			prepared += g.prepared()
		default:
			return batch
		}
	}
	return batch
}

// send sends the groups, and returns why the pipeline has failed, if it has. cmds
// is room for their commands.
func (p *Pipeline) send(batch []*Group, cmds *[]redis.Cmder) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.timeout)
	defer cancel()
	*cmds = (*cmds)[:0]
	for _, g := range batch {
		if g.Prepare != nil {
			g.Prepare()
		}
		*cmds = append(*cmds, g.Commands...)
	}
	pipe := p.client.Pipeline()
	_ = pipe.BatchProcess(ctx, *cmds...) // which copies them
	defer clear(*cmds)
	_, err := Exec(ctx, pipe)
	if err == nil || redisreply.Answered(err) {
		return nil // a reply, of whichever command or to the connection
	}
	for _, g := range batch {
		for _, cmd := range g.Commands {
			if cause := cmd.Err(); cause != nil && !redisreply.Answered(cause) {
				g.err = cause
			}
		}
	}
	return err
}

// refuse fails the groups that wait now.
func (p *Pipeline) refuse(err error) {
	for range len(p.queue) {
		select {
		case g, ok := <-p.queue:
			if !ok {
				return
			}
			g.err = err
			for _, cmd := range g.Commands {
				cmd.SetErr(err)
			}
			g.done <- struct{}{}
		default:
			return
		}
	}
}

// Hook has a client send its commands through the pipeline, whose own client
// has to be another one. Commands that block, and transactions, go their own
// way.
func (p *Pipeline) Hook() redis.Hook { return hook{p} }

type hook struct{ *Pipeline }

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

var groups = sync.Pool{New: func() any { return new(Group) }}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if apart(cmd) || h.Hurries(ctx) {
			return next(ctx, cmd)
		}
		if err := ctx.Err(); err != nil {
			cmd.SetErr(err)
			return err
		}
		g := groups.Get().(*Group)
		defer groups.Put(g)
		g.Commands = append(g.Commands[:0], cmd)
		if err := h.Do(g); err != nil {
			cmd.SetErr(err)
		}
		clear(g.Commands)
		return cmd.Err()
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) == 0 || h.Hurries(ctx) {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			if apart(cmd) {
				return next(ctx, cmds)
			}
		}
		if err := h.Do(&Group{Commands: cmds}); err != nil {
			return err
		}
		for _, cmd := range cmds {
			if err := cmd.Err(); err != nil {
				return err
			}
		}
		return nil
	}
}

// apart tells the commands that cannot share a pipeline.
func apart(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "multi", "exec", "discard", "watch", "unwatch", "subscribe", "psubscribe", "ssubscribe", "monitor", "select",
		"auth", "hello", "client", "quit", "wait", "waitaof", "blpop", "brpop", "brpoplpush", "blmove", "blmpop",
		"bzpopmin", "bzpopmax", "bzmpop", "xread", "xreadgroup":
		return true
	}
	return false
}

// A Client is a client of one server whose commands share a pipeline.
type Client struct {
	*redis.Client
	pipeline *Pipeline
}

// Share returns a client for the same server whose commands share pipelines, a *Client,
// or for the same Cluster whose scripts do, a *Cluster, and what ends them. The client
// given stays the caller's, and is to be closed after. Another one, as one that Share has
// made, is returned as it is.
func Share(client redis.UniversalClient, o Options) (redis.UniversalClient, func()) {
	switch c := client.(type) {
	case *redis.Client:
		p := New(c, o)
		shared := c.WithTimeout(p.timeout) // a copy on the same connections, without hooks
		shared.AddHook(Refusals{})
		shared.AddHook(p.Hook())
		return &Client{shared, p}, p.Close
	case *redis.ClusterClient:
		shared := share(c, o)
		return shared, shared.close
	}
	return client, func() {}
}

// Alone returns the client that Share was given, whose commands end with their context;
// one that Share has not made is returned as it is.
func Alone(client redis.UniversalClient) redis.UniversalClient {
	switch c := client.(type) {
	case *Client:
		return c.pipeline.client
	case *Cluster:
		return c.ClusterClient
	}
	return client
}

// Shares reports whether Share has made the client.
func Shares(client redis.UniversalClient) bool { return Alone(client) != client }

// For returns the pipeline of the server that has the key, for those that have groups to
// send; nil for a client that Share has not made.
func For(ctx context.Context, client redis.UniversalClient, key string) (*Pipeline, error) {
	switch c := client.(type) {
	case *Client:
		return c.pipeline, nil
	case *Cluster:
		return c.master(ctx, key)
	}
	return nil, nil
}
