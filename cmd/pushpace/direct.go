package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/apiclient"
	"github.com/pushpace/pushpace/internal/config"
	"github.com/pushpace/pushpace/internal/names"
	"github.com/pushpace/pushpace/internal/overview"
	"github.com/pushpace/pushpace/internal/pipeline"
	"github.com/pushpace/pushpace/internal/preview"
	"github.com/pushpace/pushpace/internal/quotas"
	"github.com/pushpace/pushpace/internal/redisconn"
	"github.com/pushpace/pushpace/internal/several"
	"github.com/pushpace/pushpace/internal/tracing"
	"github.com/pushpace/pushpace/push"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
	"github.com/pushpace/pushpace/worker/control"
	"github.com/pushpace/pushpace/worker/pause"
)

// connections is how many there are to the queue's Redis at most.
const connections = 32

// direct is the backend on the workers' own Redis.
type direct struct {
	cfg      *config.Config
	apps     names.Apps
	queue    *redisconn.Conn
	records  *push.Records
	producer *tracing.Producer
	// overrides are above limits, which know them after a Refresh.
	limits    *limits.Policies
	overrides *limits.Overrides
	// control looks at what the queue's Redis has. What needs the timelines asks
	// for them first: theirs may be another Redis, and that what is away.
	control *control.Control
	// limitsRedis is the limits' own; nil for none, or until somebody looks at it.
	limitsRedis redis.UniversalClient
	closers
}

// Close ends the connections.
func (d *direct) Close() error { return d.close() }

// openDirect connects to the configuration's Redis.
func openDirect(ctx context.Context, configured string) (*direct, error) {
	cfg, err := loadReachable(configured)
	if err != nil {
		return nil, err
	}
	redisconn.LogTo(slog.New(slog.DiscardHandler)) // the errors say it
	queue, err := redisconn.Open(ctx, cfg.Redis, connections)
	if err != nil {
		return nil, err
	}
	d := &direct{cfg: cfg, apps: appsOf(cfg), queue: queue, limits: limitsOf(cfg.Limits)}
	d.add(queue.Close)
	shared, stop := pipeline.Share(queue.Client, pipeline.Options{Timeout: cfg.Redis.Timeout})
	d.add(func() error { stop(); return nil })
	d.overrides = limits.NewOverrides(queue.Client, cfg.Redis.Prefix, cfg.Limits.Horizon)
	d.records = push.NewRecords(shared, cfg.Redis.Prefix, cfg.Worker.IDRetention).WithOutcomes(cfg.Worker.Outcomes)
	traces, err := startTracing(ctx, cfg.Telemetry.Tracing, slog.New(slog.DiscardHandler))
	if err != nil {
		_ = d.close()
		return nil, err
	}
	d.add(traces.Close)
	d.producer = traces.Producer(push.NewProducer(shared, cfg.Redis.Prefix, cfg.Worker.IDRetention))
	d.control = control.New(queue.Client, d.records, nil, d.limits)
	return d, nil
}

// timelines answers a control that has the limits in force and their timelines
// too.
func (d *direct) timelines(ctx context.Context) (*control.Control, error) {
	limiter, err := d.limiter(ctx)
	if err != nil {
		return nil, err
	}
	return control.New(d.queue.Client, d.records, limiter, d.limits), nil
}

// limiter returns the limiter, with the limits in force known. It connects to their Redis
// when that is another one.
func (d *direct) limiter(ctx context.Context) (*throttle.Redis, error) {
	if _, err := d.overrides.Refresh(ctx, d.limits); err != nil {
		return nil, err
	}
	conn, prefix := d.queue, d.cfg.Redis.Prefix
	if own := d.cfg.Limits.Redis; own != nil {
		var err error
		if conn, err = redisconn.Open(ctx, *own, 2); err != nil {
			return nil, err
		}
		d.add(conn.Close)
		prefix = own.Prefix
	}
	limiter := throttle.NewRedis(conn.Client, throttle.Options{Prefix: prefix, Horizon: d.cfg.Limits.Horizon})
	d.add(limiter.Close)
	return limiter, nil
}

func (d *direct) Enqueue(ctx context.Context, notifications []*push.Notification) []apiclient.Result {
	results := make([]apiclient.Result, len(notifications))
	var valid []*push.Notification
	var indices []int
	for i, n := range notifications {
		if results[i].Err = names.Faults(n, d.apps, d.limits); results[i].Err == nil {
			valid, indices = append(valid, n), append(indices, i)
		}
	}
	for j, r := range d.producer.EnqueueAll(ctx, valid) {
		i := indices[j]
		if results[i].Result = r; r.Err == nil {
			results[i].Warnings = names.Warnings(valid[j], d.limits)
		}
	}
	return results
}

func (d *direct) Status(ctx context.Context, id string) (*control.Status, error) {
	control, err := d.timelines(ctx)
	if err != nil { // what the queue's Redis has is told all the same
		control = d.control
	}
	return control.Status(ctx, id)
}

func (d *direct) Cancel(ctx context.Context, id string) error {
	control, err := d.timelines(ctx)
	if err != nil {
		return err
	}
	return control.Cancel(ctx, id)
}

func (d *direct) CancelEach(ctx context.Context, ids []string) []error {
	control, err := d.timelines(ctx)
	if err != nil {
		return slices.Repeat([]error{err}, len(ids))
	}
	return several.Each(ctx, ids, control.Cancel)
}

func (d *direct) Queued(ctx context.Context, s control.Selection, f func(control.Queued) bool) error {
	for cursor := ""; ; {
		page, next, err := d.control.Queued(ctx, s, cursor)
		if err != nil {
			return err
		}
		for _, q := range page {
			if !f(q) {
				return nil
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

func (d *direct) Timeline(ctx context.Context, app, user string, categories []string) (*control.Timeline, error) {
	if app == "" && len(d.apps) == 1 {
		app = d.apps.Names()[0]
	}
	if _, known := d.apps[app]; !known {
		return nil, misusedf("--app: %s", cmp.Or(d.apps.Fault(app), "the configuration has no app"))
	}
	control, err := d.timelines(ctx)
	if err != nil {
		return nil, err
	}
	return control.Timeline(ctx, app, user, categories)
}

func (d *direct) Letters(ctx context.Context, f func(*push.Letter) bool) error {
	return d.records.Letters(ctx, f)
}

func (d *direct) Letter(ctx context.Context, id string) (*push.Letter, error) {
	return d.records.Letter(ctx, id)
}

func (d *direct) Requeue(ctx context.Context, id string) error { return d.producer.Requeue(ctx, id) }

func (d *direct) RequeueEach(ctx context.Context, ids []string) []error {
	return several.Each(ctx, ids, d.producer.Requeue)
}

func (d *direct) Purge(ctx context.Context, id string) error {
	there, err := d.records.Purge(ctx, id)
	if err == nil && !there {
		return push.ErrNoLetter
	}
	return err
}

func (d *direct) Pause(ctx context.Context, h pause.Pause) error {
	if fault := d.apps.Fault(h.App); h.App != "" && fault != "" {
		return misusedf("--app: %s", fault)
	}
	return d.control.Pause(ctx, h)
}

func (d *direct) Resume(ctx context.Context, h pause.Pause) ([]pause.Pause, error) {
	return d.control.Resume(ctx, h)
}

func (d *direct) Pauses(ctx context.Context) ([]pause.Pause, error) { return d.control.Pauses(ctx) }

func (d *direct) Audit(ctx context.Context) (*control.Audit, error) { return d.control.Audit(ctx) }

func (d *direct) Overview(ctx context.Context) (*overview.Overview, error) {
	r := d.overview()
	if own := d.cfg.Limits.Redis; own != nil && d.limitsRedis == nil {
		conn, err := redisconn.Open(ctx, *own, 2)
		if err != nil {
			o, failed := r.Read(ctx)
			if failed == nil {
				o.LimitsRedis = []redisconn.Node{{Address: own.Address.String(), Error: err.Error()}}
			}
			return o, failed
		}
		d.add(conn.Close)
		d.limitsRedis = conn.Client
	}
	r.LimitsRedis = d.limitsRedis
	return r.Read(ctx)
}

func (d *direct) Workers(ctx context.Context) ([]control.Snapshot, error) {
	return d.overview().Workers(ctx)
}

func (d *direct) overview() *overview.Reader {
	return &overview.Reader{Control: d.control, Records: d.records, Queue: d.queue.Client}
}

func (d *direct) InForce(ctx context.Context, at limits.Level) (general, own limits.EffectivePolicy, err error) {
	if err := d.known(&at); err != nil {
		return general, own, misused(err)
	}
	general, own, _, err = d.overrides.InForce(ctx, d.limits, at)
	return general, own, err
}

func (d *direct) Horizon(context.Context) (time.Duration, error) {
	return d.overrides.Horizon(), nil
}

// quotas are those of the configuration.
func (d *direct) quotas() (quotas.Quotas, error) {
	all, err := quotasOf(d.cfg)
	return quotas.Quotas(slices.Collect(maps.Values(all))).WithUnnamed(d.cfg), err
}

func (d *direct) Quotas(ctx context.Context) ([]quotas.Status, error) {
	all, err := d.quotas()
	if err != nil {
		return nil, err
	}
	read := quotas.Reader{Overrides: d.overrides, Policies: d.limits, Meter: meter.NewRedis(d.queue.Client, d.cfg.Redis.Prefix)}
	return read.Read(ctx, all)
}

// known refuses a level of an app or a quota that the configuration does not have, and
// rates that the quota cannot have. It has the quota named by its key.
func (d *direct) known(l *limits.Level, rates ...throttle.Rate) error {
	if fault := d.apps.Fault(l.App); l.App != "" && fault != "" {
		return fmt.Errorf("app %s", fault)
	}
	if l.Quota == "" {
		return nil
	}
	all, err := d.quotas()
	if err != nil {
		return err
	}
	q, err := all.Find(l.Quota)
	if err != nil {
		return err
	}
	l.Quota = q.Key
	for _, r := range rates {
		if err := q.Check(r); err != nil {
			return err
		}
	}
	return nil
}

func (d *direct) SetOverride(ctx context.Context, o limits.Override) (limits.Override, []string, error) {
	if err := d.known(&o.Level, o.Policy.Rates...); err != nil {
		return o, nil, misused(err)
	}
	_, before, err := d.InForce(ctx, o.Level)
	if err != nil {
		return o, nil, err
	}
	if err := d.overrides.Set(ctx, o); err != nil {
		return o, nil, err
	}
	warnings := names.OverrideWarnings(o, before.Policy, d.limits.Configured())
	stands, err := d.overrides.Get(ctx, o.Level)
	if err != nil || stands == nil {
		return o, warnings, err
	}
	return *stands, warnings, nil
}

func (d *direct) Preview(ctx context.Context, at limits.Level, o *limits.Override) (*preview.Preview, error) {
	var rates []throttle.Rate
	if o != nil {
		rates = o.Policy.Rates
	}
	if err := d.known(&at, rates...); err != nil {
		return nil, misused(err)
	}
	limiter, err := d.limiter(ctx)
	if err != nil {
		return nil, err
	}
	if o == nil {
		if there, err := d.overrides.Get(ctx, at); err != nil || there == nil {
			return nil, err
		}
	} else if !o.Until.IsZero() && !o.Until.After(d.limits.Now()) {
		return nil, misused(limits.ErrPast)
	}
	foretell := &preview.Previewer{Limits: d.limits, Lines: limiter, Apps: d.apps.Names(), MaxWait: d.cfg.Worker.MaxWait}
	return foretell.Of(ctx, at, o)
}

func (d *direct) Categories(context.Context) ([]string, error) { return d.limits.Configured(), nil }

func (d *direct) UnsetOverride(ctx context.Context, at limits.Level, by string) (bool, error) {
	if all, err := d.quotas(); err == nil { // one that has left the configuration has no name
		if q, err := all.Find(at.Quota); err == nil {
			at.Quota = q.Key
		}
	}
	return d.overrides.Unset(ctx, at, by)
}

func (d *direct) Overrides(ctx context.Context, f func(limits.Override) bool) error {
	return d.overrides.List(ctx, f)
}

func (d *direct) Import(ctx context.Context, all []limits.Override) error {
	for i := range all {
		if err := d.known(&all[i].Level, all[i].Policy.Rates...); err != nil {
			return misusedf("%s: %w", all[i].Key(), err)
		}
	}
	return d.overrides.Import(ctx, all)
}

func (d *direct) LimitsLog(ctx context.Context, newest int) ([]limits.Change, error) {
	return d.overrides.Log(ctx, 0, newest)
}
