package operate

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/queue"
	"github.com/pushpace/pushpace/worker/route"
	"github.com/pushpace/pushpace/worker/watch"
)

// An Overview is how everything is.
type Overview struct {
	At time.Time `json:"at"`
	// Apps are those that it is of; nil for all. Of some, Waiting is the sum of Waits, and
	// what is told by no app is left out: Queues, Minutes, Quotas and what Redis says.
	Apps []string `json:"apps,omitempty"`
	// Sampled says that Waiting is an estimate: of jobs that were not looked at nobody
	// knows whose they are.
	Sampled bool `json:"sampled,omitempty"`
	// Workers are those that are alive. None takes what waits where there are none.
	Workers []control.Snapshot `json:"workers"`
	// Waiting is how many were accepted and have not ended, and Waits what for.
	Waiting int64           `json:"waiting"`
	Waits   []control.Share `json:"waits"`
	Queues  []Queue         `json:"queues"`
	// Providers are as the workers that are alive see them.
	Providers []Provider `json:"providers"`
	// Minutes are what they did in each of the last 15, without those in which that was
	// nothing, and LateP99 how much after its slot one of a hundred goes out of those that
	// a limit alone held, of the worker that is the latest.
	Minutes []control.Minute `json:"minutes"`
	LateP99 time.Duration    `json:"late_p99_ns"`
	// Quotas are what they know of what all together may send.
	Quotas  []route.QuotaStatus `json:"quotas,omitempty"`
	Pauses  []pause.Pause       `json:"pauses"`
	Letters Letters             `json:"dead_letters"`
	Redis   []redisconn.Node    `json:"redis"`
	// LimitsRedis is there where the limits have a Redis of their own.
	LimitsRedis []redisconn.Node `json:"limits_redis,omitempty"`
}

// A Queue is how many jobs one of asynq's queues has.
type Queue struct {
	Name string                   `json:"queue"`
	Jobs map[queue.JobState]int64 `json:"jobs"`
}

// Letters are the dead letters by their reason: of the LookedAt first ones that
// Redis has shown, where those are not all.
type Letters struct {
	Count int64 `json:"count"`
	// Sampled says that Count is an estimate, from the first ones of all apps.
	Sampled  bool           `json:"sampled,omitempty"`
	LookedAt int            `json:"looked_at"`
	Reasons  map[string]int `json:"reasons"`

	by map[string]map[string]int // the reasons by app
}

const (
	// sample bounds how many jobs of each queue are looked into, and letters how
	// many dead letters.
	sample  = 200
	letters = 200
)

// Overview returns how everything is, as it was not long ago, as far as it sees it.
func (o *Operator) Overview(ctx context.Context) (*Overview, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	all, err := o.s.overview.get(ctx)
	if err != nil {
		return nil, err
	}
	return o.overviewOf(all), nil
}

// Workers returns those that are alive, as far as it sees them.
func (o *Operator) Workers(ctx context.Context) ([]control.Snapshot, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	all, err := o.s.workers(ctx)
	return o.workersOf(all), err
}

func (s *Service) workers(ctx context.Context) ([]control.Snapshot, error) {
	return control.ReadSnapshots(ctx, s.with.Queue, s.with.Records.Prefix())
}

// Audit compares what was accepted with what became of it, of all apps together.
func (o *Operator) Audit(ctx context.Context) (*control.Audit, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if err := o.all(); err != nil {
		return nil, err
	}
	return o.s.audit.get(ctx)
}

// Events returns what happens in the workers, of the apps that it sees. How many more
// there were is not told by app.
func (o *Operator) Events(ctx context.Context) (watch.Seen, error) {
	if err := o.may(Look); err != nil {
		return watch.Seen{}, err
	}
	seen, err := o.s.with.Watcher.Look(ctx)
	if err == nil {
		seen.Events = o.eventsOf(seen.Events)
	}
	return seen, err
}

// readOverview reads an overview. It counts what Redis counts and looks into a bounded
// number of jobs and letters, however many there are.
func (s *Service) readOverview(ctx context.Context) (o *Overview, err error) {
	o = &Overview{At: time.Now().UTC()}
	if o.Workers, err = s.workers(ctx); err != nil {
		return nil, err
	}
	o.Providers, o.Minutes, o.LateP99, o.Quotas = providersOf(o.Workers), minutesOf(o.Workers), latest(o.Workers), quotasOf(o.Workers)
	counts, err := s.with.Records.Counts(ctx)
	if err != nil {
		return nil, err
	}
	o.Waiting = counts.Waiting()
	backlog, err := s.with.Control.Backlog(ctx, o.Workers, sample)
	if err != nil {
		return nil, err
	}
	o.Waits, o.Pauses = backlog.Waits, backlog.Pauses
	jobs, err := queue.ReadJobs(ctx, s.with.Queue)
	if err != nil {
		return nil, err
	}
	for name, states := range jobs {
		o.Queues = append(o.Queues, Queue{name, states})
	}
	slices.SortFunc(o.Queues, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	if o.Letters, err = s.sampleLetters(ctx, counts.Letters); err != nil {
		return nil, err
	}
	if o.Redis, err = redisconn.Look(ctx, s.with.Queue); err != nil {
		return nil, err
	}
	if s.with.LimitsRedis != nil {
		if o.LimitsRedis, err = redisconn.Look(ctx, s.with.LimitsRedis); err != nil {
			o.LimitsRedis = []redisconn.Node{{Error: err.Error()}}
		}
	}
	return o, nil
}

func (s *Service) sampleLetters(ctx context.Context, count int64) (Letters, error) {
	all := Letters{Count: count, Reasons: map[string]int{}, by: map[string]map[string]int{}}
	if count == 0 {
		return all, nil
	}
	some, _, err := s.with.Records.LettersFrom(ctx, "", letters)
	for _, l := range some {
		all.LookedAt++
		all.Reasons[l.Reason]++
		if all.by[l.App] == nil {
			all.by[l.App] = map[string]int{}
		}
		all.by[l.App][l.Reason]++
	}
	return all, err
}

// overviewOf returns what of the overview it sees: all of it, or what is its apps'. What
// is counted for all apps together is estimated from what was looked at, and marked as
// sampled, or left out.
func (o *Operator) overviewOf(all *Overview) *Overview {
	if o.SeesAll() {
		return all
	}
	its := &Overview{
		At: all.At, Apps: o.who.Apps, Workers: o.workersOf(all.Workers),
		Queues: []Queue{}, Minutes: []control.Minute{}, Pauses: o.pausesOf(all.Pauses), Letters: o.lettersOf(&all.Letters), Redis: []redisconn.Node{},
	}
	its.Providers = providersOf(its.Workers)
	its.Waits, its.Sampled = control.SharesOf(all.Waits, o.Sees)
	for _, s := range its.Waits {
		its.Waiting += s.Count
	}
	return its
}

// workersOf returns what of the workers it sees.
func (o *Operator) workersOf(all []control.Snapshot) []control.Snapshot {
	if o.SeesAll() {
		return all
	}
	its := make([]control.Snapshot, len(all))
	for i := range all {
		its[i] = all[i].Of(o.Sees)
	}
	return its
}

// lettersOf estimates the letters of its apps.
func (o *Operator) lettersOf(all *Letters) Letters {
	its := Letters{Sampled: int64(all.LookedAt) < all.Count, Reasons: map[string]int{}}
	for app, reasons := range all.by {
		if !o.Sees(app) {
			continue
		}
		for reason, n := range reasons {
			its.Reasons[reason] += n
			its.LookedAt += n
		}
	}
	its.Count = int64(its.LookedAt)
	if its.Sampled && all.LookedAt > 0 { // those that were counted may be gone
		its.Count = int64(math.Round(float64(all.Count) * float64(its.LookedAt) / float64(all.LookedAt)))
	}
	return its
}
