package operate

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/slidingstats"
	"github.com/pushpace/pushpace/internal/operate/inspect"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
	"github.com/pushpace/pushpace/worker/route"
)

// An Overview is the state of the whole system.
type Overview struct {
	At time.Time `json:"at"`
	// Apps are the apps that the overview covers; nil for all. If Apps is set, Waiting is the
	// sum of Waits, and parts not counted by app are left out: OldestDue, DrainsIn, Queues, Minutes,
	// LateP99, Quotas and the state of Redis.
	Apps []string `json:"apps,omitempty"`
	// Sampled means that Waiting is an estimate, because not every job was read.
	Sampled bool `json:"sampled,omitempty"`
	// Workers are the live workers. Without a worker, nothing is sent.
	Workers []control.Snapshot `json:"workers"`
	// Waiting is the number of accepted notifications that have not ended, and Waits counts them
	// by cause.
	Waiting int64           `json:"waiting"`
	Waits   []inspect.Share `json:"waits"`
	// OldestDue is the earliest due time of the jobs that are due and that no pause holds; zero
	// without such a job. DrainsIn is how long the backlog takes to drain at the present rate: see
	// drainsIn. 0 if unknown.
	OldestDue time.Time     `json:"oldest_due,omitzero"`
	DrainsIn  time.Duration `json:"drains_in_ns,omitempty"`
	Queues    []Queue       `json:"queues"`
	// Providers are the providers as the live workers see them.
	Providers []Provider `json:"providers"`
	// Minutes are the work in each of the last 15 minutes, the present one included, also of
	// workers that have ended. LateP99 is the slowest worker's 99th percentile of the delay after
	// the slot, over notifications that only a limit held.
	Minutes []control.Minute `json:"minutes"`
	LateP99 time.Duration    `json:"late_p99_ns"`
	// Quotas are the live workers' states of the quotas.
	Quotas  []route.QuotaStatus `json:"quotas,omitempty"`
	Pauses  []pause.Pause       `json:"pauses"`
	Letters Letters             `json:"dead_letters"`
	// Lost is a loss of data in Redis that no operator has confirmed; nil without one.
	Lost  *control.Loss    `json:"lost,omitempty"`
	Redis []redisconn.Node `json:"redis"`
	// LimitsRedis is set if the limits have their own Redis.
	LimitsRedis []redisconn.Node `json:"limits_redis,omitempty"`
	// Unread are the parts that could not be read, by name; all other parts are valid.
	Unread []Unread `json:"unread,omitempty"`
}

// Holding returns the first pause or trouble of a provider that notifications wait for, or nil.
// Its end is unknown, and so is the time at which these notifications leave.
func (o *Overview) Holding() *pause.Pause {
	for i := range o.Pauses {
		if p := &o.Pauses[i]; p.Kind != pause.Operator && p.Waiting > 0 {
			return p
		}
	}
	return nil
}

// A Queue counts the jobs of one of asynq's queues.
type Queue struct {
	Name string                   `json:"queue"`
	Jobs map[store.JobState]int64 `json:"jobs"`
}

// Letters counts the dead letters. LookedAt and Reasons count only the letters that were read.
type Letters struct {
	Count int64 `json:"count"`
	// Sampled means that Count is an estimate from the first letters of all apps.
	Sampled bool `json:"sampled,omitempty"`
	// Dropped is how many older letters were deleted because their app had too many.
	Dropped  int64          `json:"dropped,omitempty"`
	LookedAt int            `json:"looked_at"`
	Reasons  map[string]int `json:"reasons"`

	by      map[string]map[string]int // the reasons by app
	dropped map[string]int64          // by app
}

// letters bounds the dead letters that are read.
const letters = 200

// Overview returns the part of the overview that the principal sees. The overview is at most Fresh
// or overviewFresh old, whichever is longer.
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

// LastOverview returns the overview that was read last, however old, without reading Redis; nil
// before the first one.
func (o *Operator) LastOverview() (*Overview, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if last := o.s.overview.last(); last != nil {
		return o.overviewOf(last), nil
	}
	return nil, nil
}

// Workers returns the live workers, with the apps that the principal sees.
func (o *Operator) Workers(ctx context.Context) ([]control.Snapshot, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	all, err := o.s.workers(ctx)
	return o.workersOf(all), err
}

func (s *Service) workers(ctx context.Context) ([]control.Snapshot, error) {
	all, err := control.ReadSnapshots(ctx, s.with.Queue, s.with.Records.Prefix())
	if err == nil && len(all) == 0 {
		err = control.CheckSnapshotWrites(ctx, s.with.Queue, s.with.Records.Prefix())
	}
	return all, err
}

// Audit compares the accepted notifications with their results, of all apps together.
func (o *Operator) Audit(ctx context.Context) (*inspect.Audit, error) {
	if err := o.may(Look); err != nil {
		return nil, err
	}
	if err := o.all(); err != nil {
		return nil, err
	}
	return o.s.audit.get(ctx)
}

// readOverview reads the parts of an overview in parallel, and lists the parts that fail or do
// not answer in time. If all parts of the queue's Redis fail, it returns the workers' error. It
// reads counters, and a bounded number of jobs and letters.
func (s *Service) readOverview(ctx context.Context) (*Overview, error) {
	o := &Overview{At: time.Now().UTC()}
	ctx, cancel := context.WithTimeout(ctx, s.overview.partsWithin())
	defer cancel()
	workers := begin(ctx, s.workers)
	counts := begin(ctx, s.with.Records.CountsOfEach)
	pauses := begin(ctx, func(ctx context.Context) ([]pause.Pause, error) {
		alive, err := workers.get(ctx)
		if err != nil {
			return nil, err
		}
		return s.with.Inspect.PausesOf(ctx, alive)
	})
	jobs := begin(ctx, func(ctx context.Context) (map[int]store.Jobs, error) {
		return store.ReadJobs(ctx, s.with.Queue, s.with.Records)
	})
	backlog := begin(ctx, func(ctx context.Context) (*inspect.Backlog, error) {
		alive, err1 := workers.get(ctx)
		seen, err2 := pauses.get(ctx)
		counted, err3 := jobs.get(ctx)
		_, err3 = store.Unreachable(err3)
		if err := cmp.Or(err1, err2, err3); err != nil {
			return nil, err
		}
		return s.with.Inspect.Backlog(ctx, alive, seen, counted)
	})
	oldest := begin(ctx, func(ctx context.Context) (time.Time, error) {
		early, cancel := context.WithTimeout(ctx, s.overview.partsWithin()/2) // the other half of the time is for the shards
		defer cancel()
		seen, _ := pauses.get(early) // on error no job counts as held
		return s.with.Inspect.OldestDue(ctx, seen)
	})
	minutes := begin(ctx, func(ctx context.Context) ([]control.Minute, error) {
		return s.readMinutes(ctx, o.At, slidingstats.Window)
	})
	letters := begin(ctx, func(ctx context.Context) (Letters, error) { return s.sampleLetters(ctx, counts) })
	loss := begin(ctx, func(ctx context.Context) (*control.Loss, error) {
		return control.ReadLoss(ctx, s.with.Queue, s.with.Records.Prefix())
	})
	nodes := begin(ctx, func(ctx context.Context) ([]redisconn.Node, error) { return redisconn.ReadNodes(ctx, s.with.Queue) })
	limitsNodes := begin(ctx, func(ctx context.Context) ([]redisconn.Node, error) {
		if s.with.LimitsRedis == nil {
			return nil, nil
		}
		return redisconn.ReadNodes(ctx, s.with.LimitsRedis)
	})

	failed := map[Part]error{}
	var err error
	o.Workers, err = workers.get(ctx)
	failed[PartWorkers] = err
	o.Providers, o.LateP99, o.Quotas = sumProviders(o.Workers), maxLateness(o.Workers), sumQuotas(o.Workers)
	added, err := minutes.get(ctx)
	failed[PartMinutes] = err
	if err == nil { // snapshots alone hold only the newest minutes
		o.Minutes = sumMinutes(added, o.Workers)
	}
	counted, err := counts.get(ctx)
	failed[PartWaiting] = err
	o.Waiting = store.Sum(counted).Waiting()
	o.OldestDue, failed[PartOldestDue] = oldest.get(ctx)
	queued, err := jobs.get(ctx)
	failed[PartQueues] = err
	o.Queues = queuesOf(store.SumJobs(queued))
	o.Letters, failed[PartLetters] = letters.get(ctx)
	o.Lost, failed[PartLost] = loss.get(ctx)
	o.Pauses, failed[PartPauses] = pauses.get(ctx)
	waits, err := backlog.get(ctx)
	failed[PartWaits] = err
	if _, err := store.Unreachable(err); err == nil {
		o.Waits, o.Pauses = waits.Waits, waits.Pauses
		if o.Holding() == nil {
			o.DrainsIn = drainsIn(o.Waits, o.Minutes, o.At)
		}
	}
	if !slices.ContainsFunc(ofQueue, func(part Part) bool { _, err := store.Unreachable(failed[part]); return err == nil }) {
		return nil, failed[PartWorkers]
	}
	o.Redis, failed[PartRedis] = nodes.get(ctx)
	if err := AddShards(ctx, s.with.Queue, s.with.Records, o.Redis, counted, o.Workers); err != nil {
		failed[PartRedis] = cmp.Or(failed[PartRedis], err)
	}
	o.LimitsRedis, failed[PartLimitsRedis] = limitsNodes.get(ctx)
	s.logUnread(ctx, o, failed)
	return o, nil
}

// logUnread sets o.Unread to the parts that could not be read, of some shards or at all, and logs
// them. It makes nil lists empty.
func (s *Service) logUnread(ctx context.Context, o *Overview, failed map[Part]error) {
	for _, part := range slices.Sorted(maps.Keys(failed)) {
		if err := failed[part]; err != nil {
			shards, _ := store.Unreachable(err)
			o.Unread = append(o.Unread, Unread{part, Cause(err), shards})
			s.repeats.Write(ctx, s.with.Log, slog.LevelWarn, "a part of the overview could not be read", []slog.Attr{slog.String("part", string(part))}, slog.String("cause", Cause(err)))
		}
	}
	o.Workers, o.Queues, o.Minutes, o.Pauses, o.Redis = orEmpty(o.Workers), orEmpty(o.Queues), orEmpty(o.Minutes), orEmpty(o.Pauses), orEmpty(o.Redis)
	if o.Letters.Reasons == nil {
		o.Letters.Reasons = map[string]int{}
	}
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// queuesOf returns the queues with their jobs, sorted by name.
func queuesOf(jobs store.Jobs) (all []Queue) {
	for name, states := range jobs {
		all = append(all, Queue{name, states})
	}
	slices.SortFunc(all, func(a, b Queue) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// sampleLetters reads some dead letters while counts is read: both are slow if a shard does not
// answer.
func (s *Service) sampleLetters(ctx context.Context, counts *reading[map[int]store.Counts]) (Letters, error) {
	all := Letters{Reasons: map[string]int{}, by: map[string]map[string]int{}, dropped: map[string]int64{}}
	some, _, err := s.letters(ctx, "", letters)
	if _, err := store.Unreachable(err); err != nil {
		return all, err
	}
	counted, uncounted := counts.get(ctx)
	if _, failed := store.Unreachable(uncounted); failed != nil {
		return all, failed
	}
	sums := store.Sum(counted)
	all.Count = sums.Letters
	for d, n := range sums.Dropped {
		if d.Kind == store.DeadLetters {
			all.Dropped += n
			all.dropped[d.App] += n
		}
	}
	for _, l := range some {
		all.LookedAt++
		all.Reasons[l.Reason]++
		if all.by[l.App] == nil {
			all.by[l.App] = map[string]int{}
		}
		all.by[l.App][l.Reason]++
	}
	return all, cmp.Or(uncounted, err)
}

// overviewOf returns the part of the overview that the principal sees. Values counted for all apps
// together are estimated from the sample and marked as sampled, or left out.
func (o *Operator) overviewOf(all *Overview) *Overview {
	if o.SeesAll() {
		return all
	}
	its := &Overview{
		At: all.At, Apps: o.principal.Apps, Workers: o.workersOf(all.Workers),
		Queues: []Queue{}, Minutes: []control.Minute{}, Pauses: o.pausesOf(all.Pauses), Letters: o.lettersOf(&all.Letters), Redis: []redisconn.Node{},
		Unread: o.unreadOf(all.Unread),
	}
	its.Providers = sumProviders(its.Workers)
	its.Waits, its.Sampled = inspect.SharesOf(all.Waits, o.Sees)
	for _, s := range its.Waits {
		its.Waiting += s.Count
	}
	return its
}

// workersOf returns the workers' snapshots without the apps that the principal does not see.
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

// lettersOf estimates the counts of the letters of the principal's apps.
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
	for app, n := range all.dropped {
		if o.Sees(app) {
			its.Dropped += n
		}
	}
	its.Count = int64(its.LookedAt)
	if its.Sampled && all.LookedAt > 0 { // 0 if the letters were purged after the count
		its.Count = int64(math.Round(float64(all.Count) * float64(its.LookedAt) / float64(all.LookedAt)))
	}
	return its
}
