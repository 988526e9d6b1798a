package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
)

// An overviewView is what overview.html shows.
type overviewView struct {
	*words.Overview
	// Some says that it is of some apps: the work for all together is left out, and Sampled
	// that what waits is an estimate.
	Some, Sampled bool
	Throughput    *throughputChart // nil where it is not told, or not known
	Late          string           // of pushes held only by a limit, one of a hundred at least
	// Queues are asynq's with how many jobs each has of each of the States.
	Queues []queueRow
	States []string
	// NotRead says why a part could not be read, by its name.
	NotRead map[string]string
	// Lost says that a loss is to be confirmed.
	Lost bool
	// More is how many workers are not shown.
	More int64
	// Cluster says that the servers have shards.
	Cluster bool
}

// jobStates are those of a queue's jobs.
var jobStates = []store.JobState{store.JobPending, store.JobActive, store.JobScheduled, store.JobPutOff}

// A queueRow is how many jobs a queue has of each of the jobStates.
type queueRow struct {
	Name string
	Jobs []int64
}

// mostWorkers are shown.
const mostWorkers = 30

// figureLinks are where figures are explained, by their names.
var figureLinks = map[string]string{"Waiting": Path + "waiting", "Dead letters": Path + "dead-letters", "Failed, 15 minutes": Path + "dead-letters"}

func (c *Console) overviewPage(ctx context.Context, v *visit) (page, error) {
	var (
		audit *inspect.Audit
		done  *operate.Throughput
		other sync.WaitGroup
	)
	within := operate.Range(cmp.Or(v.query.Get("range"), string(operate.QuarterHour)))
	if !slices.Contains(operate.Ranges, within) {
		return page{}, errBadQuery
	}
	other.Go(func() { audit, _ = v.as.Audit(ctx) })             // nil where it is not known, or not told
	other.Go(func() { done, _ = v.as.Throughput(ctx, within) }) // as above
	o, err := v.as.Overview(ctx)
	other.Wait()
	if err != nil {
		return page{}, err
	}
	view := viewOfOverview(o, audit)
	if done != nil {
		view.Throughput = drawThroughput(done, within)
	}
	return page{name: "overview", title: "Overview", live: true, data: view}, nil
}

// confirmLoss ends the incident of a loss of data. Who confirms it a second time has done so.
func (c *Console) confirmLoss(ctx context.Context, v *visit) (page, error) {
	if _, err := v.as.ConfirmLoss(ctx); err != nil && !errors.Is(err, operate.ErrNoLoss) {
		return page{}, err
	}
	return page{to: Path + "?done=loss-confirmed"}, nil
}

func viewOfOverview(o *operate.Overview, audit *inspect.Audit) overviewView {
	view := overviewView{
		Overview: words.OfOverview(o, audit), Some: o.Apps != nil, Sampled: o.Sampled, Late: words.Took(o.LateP99), NotRead: map[string]string{}, Lost: o.Lost != nil,
		Cluster: slices.ContainsFunc(o.Redis, func(n redisconn.Node) bool { return n.Shards != nil }),
	}
	for _, u := range o.Unread {
		view.NotRead[string(u.Part)] = o.NotRead(u.Part)
	}
	for _, state := range jobStates {
		view.States = append(view.States, words.Job(string(state)))
	}
	for _, q := range o.Queues {
		row := queueRow{Name: q.Name}
		for _, state := range jobStates {
			row.Jobs = append(row.Jobs, q.Jobs[state])
		}
		view.Queues = append(view.Queues, row)
	}
	if n := len(view.Workers) - mostWorkers; n > 0 {
		view.Workers, view.More = view.Workers[:mostWorkers], int64(n)
	}
	return view
}
