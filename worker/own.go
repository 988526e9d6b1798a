package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pushpace/pushpace/internal/base/ledger"
	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/throttle"
	"github.com/pushpace/pushpace/throttle/limits"
	"github.com/pushpace/pushpace/throttle/meter"
)

// own is what ends the parts that a worker has made for itself, in the order in which
// they were made.
type own []func()

func (o own) close() {
	for _, end := range slices.Backward(o) {
		end()
	}
}

// complete makes the parts that the options leave out, on the same Redis and under the
// same prefix as the rest.
func (o *Options) complete() (own, error) {
	var made own
	if o.Limiter == nil {
		o.Horizon = cmp.Or(o.Horizon, 24*time.Hour)
		if err := o.fits(); err != nil {
			return nil, err
		}
		shared, stop := pipeline.Share(o.Queue, pipeline.Options{})
		limiter, err := throttle.New(shared, throttle.Options{Prefix: o.Prefix, Horizon: o.Horizon})
		if err != nil {
			stop()
			return nil, fmt.Errorf("worker: Queue: %w", err)
		}
		made = own{stop, func() { _ = limiter.Close() }}
		o.Queue, o.Waiting, o.ClockOffset = shared, limiter.Waiting, limiter.ClockOffset
		o.Limiter = throttle.WithOutage(limiter, throttle.Closed, throttle.OutageOptions{Log: o.RedisLog})
		o.Overrides = limits.NewOverrides(o.Queue, o.Prefix, o.Horizon)
	}
	if o.Meter == nil {
		o.Meter = meter.NewRedis(o.Queue, o.Prefix)
	}
	o.records = ledger.NewRecords(o.Queue, o.Prefix, o.IDRetention).WithOutcomes(o.Outcomes)
	return made, nil
}

// fits reports the limit that the timelines do not reach back for, or that is not valid.
func (o *Options) fits() error {
	general, categories := o.Limits.Base()
	if err := general.Validate(o.Horizon); err != nil {
		return fmt.Errorf("worker: Limits: %w", err)
	}
	for name, p := range categories {
		if err := p.Validate(o.Horizon); err != nil {
			return fmt.Errorf("worker: Limits of category %q: %w", name, err)
		}
	}
	return nil
}
