package worker

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/pipeline"
	"github.com/pushpace/pushpace/push"
)

// A doneGroup is jobs that are done at about the same time. They share a command:
// the first sends it, the others join until it leaves.
type doneGroup struct {
	*push.Dones
	ready    chan struct{} // closed when there is an answer
	err      error
	problems []error // of each job
}

// doneAtOnce bounds how many share a command: it holds Redis up for less than a
// millisecond.
const doneAtOnce = 64

// doneGroups are those that can be joined.
type doneGroups struct {
	client   redis.UniversalClient
	pipeline *pipeline.Pipeline // of the client; nil if it has none, and each goes alone
	records  *push.Records

	mu   sync.Mutex
	open map[string]*doneGroup // by asynq's count of the queue's day
}

func newDoneGroups(client redis.UniversalClient, records *push.Records) *doneGroups {
	g := &doneGroups{client: client, records: records, open: make(map[string]*doneGroup)}
	if single, ok := client.(*redis.Client); ok {
		g.pipeline = pipeline.Of(single)
	}
	return g
}

// done ends a job, given the keys and arguments of asynq's script for it, and
// settles its notification as delivered.
func (g *doneGroups) done(ctx context.Context, id string, outcomes []push.TargetOutcome, young bool, keys []string, args []any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	group, i := g.join(id, outcomes, keys, args)
	if i == 0 {
		g.send(ctx, keys[3], group, young)
		close(group.ready)
	}
	<-group.ready // as soon as the pipeline has an answer, or gives up
	if group.err != nil {
		return group.err
	}
	return group.problems[i]
}

// join answers the job's group, and its place there.
func (g *doneGroups) join(id string, outcomes []push.TargetOutcome, keys []string, args []any) (*doneGroup, int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	group := g.open[keys[3]]
	if group == nil || group.Len() == doneAtOnce {
		group = &doneGroup{Dones: g.records.NewDones(keys, args), ready: make(chan struct{})}
		if g.pipeline != nil {
			g.open[keys[3]] = group
		}
	}
	group.Add(id, keys[2], outcomes)
	return group, group.Len() - 1
}

// send sends the group's command. It is joined for as long as possible.
func (g *doneGroups) send(ctx context.Context, day string, group *doneGroup, young bool) {
	if g.pipeline == nil {
		cmd := group.Command(ctx, young)
		_ = g.client.Process(ctx, cmd) // the error is the command's
		group.problems, group.err = group.Read(ctx, cmd)
		return
	}
	var cmd *redis.Cmd
	shared := new(pipeline.Group)
	shared.Prepare = func() {
		g.close(day, group)
		cmd = group.Command(ctx, young)
		shared.Commands = []redis.Cmder{cmd}
	}
	if group.err = g.pipeline.Do(shared); group.err != nil {
		g.close(day, group) // it may never have been prepared
		return
	}
	group.problems, group.err = group.Read(context.WithoutCancel(ctx), cmd)
}

// close lets nobody join any more.
func (g *doneGroups) close(day string, group *doneGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open[day] == group {
		delete(g.open, day)
	}
}
