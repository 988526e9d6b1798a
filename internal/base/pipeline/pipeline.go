// Package pipeline lets concurrent callers share pipelines to a Redis server: sharing saves system
// calls and wake-ups, and a single command is still sent at once.
//
// Start with Share: it returns a client that sends every command, or for a Cluster every script,
// through a Pipeline. For returns the Pipeline for a Group: commands that belong together. Only the
// lanes send, each a goroutine. Do not touch a Group until Do has returned.
//
// go-redis can pipeline by itself (AutoPipeline), and sends single commands as fast. It lacks:
//   - Groups that stay together, including transactions: with 64 callers three times as fast as
//     on separate connections. AutoPipeline sends a MULTI separately.
//   - Prepare, which sets a group's commands just before it is sent: a claim's score, or the
//     jobs that one command ends.
//   - A bound on the wait: with a Redis that accepts and never answers, 500 callers fail after one
//     time-out, with AutoPipeline after eight.
//
// A caller waits for twice the time-out at most, but may wait longer than its context.
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
	// Lanes is the largest number of pipelines in flight. 0 means 1, which makes the fewest system
	// calls; more lanes help if round trips are long.
	Lanes int
	// Timeout bounds a pipeline's round trip; on connections of redisconn it bounds the wait for
	// each next answer. 0 means one second. The client needs ContextTimeoutEnabled.
	Timeout time.Duration
}

// bound returns the time-out.
func (o Options) bound() time.Duration {
	if o.Timeout <= 0 {
		return time.Second
	}
	return o.Timeout
}

// A Pipeline sends groups of commands. Groups that arrive while every lane is busy share the next
// pipeline.
type Pipeline struct {
	client  *redis.Client
	timeout time.Duration
	queue   chan *Group
	gate    *gate // nil for a single server: its callers have no other server to use

	mu     sync.RWMutex // read-locked while a group is queued
	closed bool
	lanes  sync.WaitGroup
}

const (
	// batchCommands bounds the commands of a pipeline, not counting its last group.
	batchCommands = 512
	// batchPrepared is the number of waiting groups with Prepare that a pipeline takes; if a third
	// of the waiting groups is more, it takes a third. Fewer keep several lanes busy, more save
	// system calls.
	batchPrepared = 16
	// maxPrepared bounds the groups with Prepare in a pipeline: their size is unknown until Prepare has
	// run.
	maxPrepared = 64
	// yields is how often a lane yields before it sends: a caller that has just got an answer is
	// about to send its next command.
	yields = 3
	// maxWaiting bounds the groups that wait for a lane; further callers block.
	maxWaiting = 4096
)

// ErrClosed means that the pipeline is closed.
var ErrClosed = errors.New("pipeline: closed")

// A Group is a sequence of commands that are executed without commands of other groups among them.
// It may be used again after Do has returned.
type Group struct {
	// Commands are sent in this order, and keep their replies and errors.
	Commands []redis.Cmder
	// Prepare, if not nil, is called just before the group is sent, and may set Commands. It must
	// return at once.
	Prepare func()

	done chan struct{}
	err  error
}

// New returns a pipeline on the client, which the caller closes.
func New(client *redis.Client, o Options) *Pipeline {
	if o.Lanes <= 0 {
		o.Lanes = 1
	}
	p := &Pipeline{client: client, timeout: o.bound(), queue: make(chan *Group, maxWaiting)}
	for range o.Lanes {
		p.lanes.Go(p.run)
	}
	return p
}

// Close ends the pipeline after the commands in flight.
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

// Do sends the group and waits for its replies. After a connection's error, which it returns, the
// commands may or may not have been executed. Each command keeps its own error. Do returns within
// about twice the time-out if Redis accepts and never answers, and at once while a Cluster's master
// is known to be unreachable.
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
		return p.do(g) // reads need no replica
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
		for range yields { // callers about to send share this pipeline
			runtime.Gosched()
		}
		batch = p.gather(append(batch[:0], first))
		if err := p.send(batch, &cmds); err != nil {
			// The waiting groups would only fail later, one time-out after another.
			p.refuse(err)
		}
		for _, g := range batch {
			g.done <- struct{}{}
		}
		clear(batch)
	}
}

// prepared returns 1 for a group with Prepare, else 0.
func (g *Group) prepared() int {
	if g.Prepare == nil {
		return 0
	}
	return 1
}

// gather adds the waiting groups to the batch.
func (p *Pipeline) gather(batch []*Group) []*Group {
	prepared := batch[0].prepared()
	for n := len(batch[0].Commands); n < batchCommands && prepared < min(batchPrepared+len(p.queue)/2, maxPrepared); {
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

// send sends the groups, and returns the connection's error. cmds is a buffer for the commands.
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
	_ = pipe.BatchProcess(ctx, *cmds...) // copies cmds
	defer clear(*cmds)
	_, err := Exec(ctx, pipe)
	if err == nil || redisreply.Answered(err) {
		return nil // a reply to any command or to the connection
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

// refuse fails the groups that are waiting now.
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

// Hook returns a hook that sends a client's commands through the pipeline. Do not add it to the
// pipeline's own client. Blocking commands and transactions bypass the pipeline.
func (p *Pipeline) Hook() redis.Hook { return hook{p} }

type hook struct{ *Pipeline }

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }

var groups = sync.Pool{New: func() any { return new(Group) }}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if needsOwnConnection(cmd) {
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
		if len(cmds) == 0 {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			if needsOwnConnection(cmd) {
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

// needsOwnConnection reports whether a command cannot share a pipeline.
func needsOwnConnection(cmd redis.Cmder) bool {
	switch cmd.Name() {
	case "multi", "exec", "discard", "watch", "unwatch", "subscribe", "psubscribe", "ssubscribe", "monitor", "select",
		"auth", "hello", "client", "quit", "wait", "waitaof", "blpop", "brpop", "brpoplpush", "blmove", "blmpop",
		"bzpopmin", "bzpopmax", "bzmpop", "xread", "xreadgroup":
		return true
	}
	return false
}

// A Client is a client of one server; its commands share a pipeline.
type Client struct {
	*redis.Client
	pipeline *Pipeline
}

// Share returns a client that shares pipelines, a *Client for a server and a *Cluster for a Cluster,
// and a function that ends the pipelines. Close the given client after that function. Share returns
// any other client unchanged.
func Share(client redis.UniversalClient, o Options) (redis.UniversalClient, func()) {
	switch c := client.(type) {
	case *redis.Client:
		p := New(c, o)
		shared := c.WithTimeout(p.timeout) // shares the connections, but not the hooks
		shared.AddHook(Refusals{})
		shared.AddHook(p.Hook())
		return &Client{shared, p}, p.Close
	case *redis.ClusterClient:
		shared := share(c, o)
		return shared, shared.close
	}
	return client, func() {}
}

// Unshared returns the client that was given to Share: its commands end with their context. It
// returns any other client unchanged.
func Unshared(client redis.UniversalClient) redis.UniversalClient {
	switch c := client.(type) {
	case *Client:
		return c.pipeline.client
	case *Cluster:
		return c.ClusterClient
	}
	return client
}

// Shares reports whether Share has made the client.
func Shares(client redis.UniversalClient) bool { return Unshared(client) != client }

// For returns the pipeline of the server that has the key; nil for a client that Share has not
// made.
func For(ctx context.Context, client redis.UniversalClient, key string) (*Pipeline, error) {
	switch c := client.(type) {
	case *Client:
		return c.pipeline, nil
	case *Cluster:
		return c.master(ctx, key)
	}
	return nil, nil
}
