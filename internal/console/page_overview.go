package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/pushpace/pushpace/internal/operate"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/internal/words"
	"github.com/pushpace/pushpace/worker/control"
)

// An overviewView is the data of overview.html.
type overviewView struct {
	*words.Overview
	// Some means that the overview covers only some apps, without the figures of all apps
	// together. Sampled means that the waiting figures are estimates.
	Some, Sampled bool
	Throughput    *throughputChart // nil if unknown, or not for this visitor
	Late          string           // 99th percentile of the lateness of pushes delayed only by a limit
	// Queues are asynq's queues with their jobs by state, in the order of States.
	Queues []queueRow
	States []string
	// NotRead has the reason for each part that could not be read.
	NotRead map[string]string
	// Lost is the At of the loss of data that awaits confirmation; "" for none.
	Lost string
	// More is the number of workers not shown.
	More int64
	// Cluster is true if the servers are masters of a Cluster, each with its shards.
	Cluster bool
}

// jobStates are the states of a queue's jobs that the page counts.
var jobStates = []store.JobState{store.JobPending, store.JobActive, store.JobScheduled, store.JobPutOff}

// A queueRow counts a queue's jobs in each of the jobStates.
type queueRow struct {
	Name string
	Jobs []int64
}

// mostWorkers bounds the workers shown.
const mostWorkers = 30

// figureLinks are the pages with a figure's details, by its name.
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
	other.Go(func() { audit, _ = v.as.Audit(ctx) })             // nil if unknown, or not for this visitor
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

// confirmLoss confirms the loss of data that was shown, which ends its incident. A second
// confirmation changes nothing.
func (c *Console) confirmLoss(ctx context.Context, v *visit) (page, error) {
	at, err := time.Parse(time.RFC3339Nano, v.form.Get("at"))
	if err != nil {
		return page{}, errBadForm
	}
	switch _, err = v.as.ConfirmLoss(ctx, at); {
	case errors.Is(err, control.ErrMoreLost):
		return page{to: Path + "?done=more-lost"}, nil
	case err != nil && !errors.Is(err, control.ErrNoLoss):
		return page{}, err
	}
	return page{to: Path + "?done=loss-confirmed"}, nil
}

func viewOfOverview(o *operate.Overview, audit *inspect.Audit) overviewView {
	view := overviewView{
		Overview: words.OfOverview(o, audit), Some: o.Apps != nil, Sampled: o.Sampled, Late: words.Took(o.LateP99), NotRead: map[string]string{},
		Cluster: slices.ContainsFunc(o.Redis, func(n redisconn.Node) bool { return n.Shards != nil }),
	}
	if o.Lost != nil {
		view.Lost = o.Lost.At.Format(time.RFC3339Nano)
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
