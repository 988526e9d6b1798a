package published

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/throttle"
)

// Counters limit by several rates at once, with a counter for each rate and period of the clock.
// It is "Pattern: Rate limiter 1" of https://redis.io/docs/latest/commands/incr for all rates in
// one pipeline. Its known faults:
//   - A rate allows twice its count around the border of two periods.
//   - An attempt denied by one rate is charged to all rates.
type Counters struct {
	client redis.UniversalClient
	rates  []throttle.Rate
	o      Options
}

// NewCounters returns counters on Redis, PREFIX:{ID}:counter:PERIOD:INDEX for each rate. Only the
// options Now, Prefix and Timeout apply. The caller closes the client.
func NewCounters(client redis.UniversalClient, rates []throttle.Rate, o Options) (*Counters, error) {
	if len(rates) == 0 {
		return nil, errors.New("throttle: published: there is no rate: want at least one")
	}
	for _, r := range rates {
		if err := r.Validate(); err != nil {
			return nil, fmt.Errorf("throttle: published: %w", err)
		}
	}
	o.Prefix = cmp.Or(o.Prefix, "pushpace")
	o.Timeout = cmp.Or(o.Timeout, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Counters{client: client, rates: rates, o: o}, nil
}

// Limit makes an attempt, which counts even if it is denied. Left is the time until the periods
// of all denying rates have ended.
func (c *Counters) Limit(ctx context.Context, id string) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Timeout)
	defer cancel()
	now := c.o.Now().UnixMicro()
	pipe := c.client.Pipeline()
	counts := make([]*redis.IntCmd, len(c.rates))
	for i, r := range c.rates {
		period := r.Period.Microseconds()
		key := c.o.Prefix + ":{" + throttle.Escape(id) + "}:counter:" + strconv.FormatInt(period, 10) + ":" + strconv.FormatInt(now/period, 10)
		counts[i] = pipe.Incr(ctx, key)
		pipe.PExpire(ctx, key, r.Period+time.Millisecond+clockSlack)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return Result{}, throttle.WrapStoreError("published: count", err)
	}
	var result Result
	for i, r := range c.rates {
		period := r.Period.Microseconds()
		left := max(0, r.Count-int(counts[i].Val()))
		if i == 0 || left < result.Remaining {
			result.Remaining = left
		}
		if counts[i].Val() > int64(r.Count) {
			result.Blocked, result.ByCount = true, true
			result.Left = max(result.Left, time.Duration((now/period+1)*period-now)*time.Microsecond)
		}
	}
	return result, nil
}
