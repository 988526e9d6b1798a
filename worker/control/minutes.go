package control

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/pipeline"
	"github.com/pushpace/pushpace/internal/store"
	"github.com/pushpace/pushpace/push"
)

// A Minute counts the work of one worker, or of all workers, in one minute.
type Minute struct {
	At time.Time `json:"at"` // its beginning
	// Sent counts pushes, Deferred the deferrals by a limit, and Ended the ends by state.
	Sent     int64                `json:"sent"`
	Deferred int64                `json:"deferred"`
	Ended    map[push.State]int64 `json:"ended,omitempty"`
	// Waiting is the number of waiting notifications at the minute's end; nil if unknown.
	Waiting *int64 `json:"waiting,omitempty"`
}

// Done reports whether the minute counts any work.
func (m *Minute) Done() bool { return m.Sent+m.Deferred > 0 || len(m.Ended) > 0 }

// Failed returns the number of notifications that ended rejected, exhausted, undeliverable or malformed.
func (m *Minute) Failed() int64 {
	return m.Ended[push.Rejected] + m.Ended[push.Exhausted] + m.Ended[push.Undeliverable] + m.Ended[store.Malformed]
}

// Add adds the counts of o for the same minute.
func (m *Minute) Add(o *Minute) {
	m.Sent += o.Sent
	m.Deferred += o.Deferred
	for state, n := range o.Ended {
		if m.Ended == nil {
			m.Ended = map[push.State]int64{}
		}
		m.Ended[state] += n
	}
	m.Waiting = cmp.Or(o.Waiting, m.Waiting)
}

// minuteLife is how long a minute is kept: a day, and an hour for charts.
const minuteLife = 25 * time.Hour

// minuteKey returns the key of the minute that contains at:
//
//	PREFIX:{throughput}:MINUTE  hash, of a Unix minute: counts by "sent", "deferred" and end
//	                            state; and "waiting"
//
// Minutes follow each worker's own clock.
func minuteKey(prefix string, at time.Time) string {
	return cmp.Or(prefix, "pushpace") + ":{throughput}:" + strconv.FormatInt(at.Unix()/60, 10)
}

// AddMinutes adds a worker's minutes to the counts of all workers. After an error Redis may have added
// some counts, and a second call may count them twice.
func AddMinutes(ctx context.Context, client redis.UniversalClient, prefix string, minutes []Minute) error {
	pipe := client.TxPipeline()
	for _, m := range minutes {
		key := minuteKey(prefix, m.At)
		counts := map[string]int64{"sent": m.Sent, "deferred": m.Deferred}
		for state, n := range m.Ended {
			counts[string(state)] = n
		}
		for name, n := range counts {
			if n > 0 {
				pipe.HIncrBy(ctx, key, name, n)
			}
		}
		if m.Waiting != nil && (m.Done() || *m.Waiting > 0) {
			pipe.HSet(ctx, key, "waiting", *m.Waiting)
		}
		pipe.Expire(ctx, key, minuteLife)
	}
	if _, err := pipeline.Exec(ctx, pipe); err != nil {
		return fmt.Errorf("add to the per-minute counts: %w", err)
	}
	return nil
}

// ReadMinutes returns the recorded minutes of all workers between two instants, oldest first. Minutes are
// kept for a day.
func ReadMinutes(ctx context.Context, client redis.UniversalClient, prefix string, from, until time.Time) ([]Minute, error) {
	pipe := client.Pipeline()
	var asked []time.Time
	var answers []*redis.MapStringStringCmd
	for at := from.UTC().Truncate(time.Minute); !at.After(until); at = at.Add(time.Minute) {
		asked, answers = append(asked, at), append(answers, pipe.HGetAll(ctx, minuteKey(prefix, at)))
	}
	if _, err := pipeline.Exec(ctx, pipe); err != nil {
		return nil, fmt.Errorf("read the per-minute counts: %w", err)
	}
	var all []Minute
	for i, answer := range answers {
		if len(answer.Val()) > 0 {
			all = append(all, readMinute(asked[i], answer.Val()))
		}
	}
	return all, nil
}

func readMinute(at time.Time, fields map[string]string) Minute {
	m := Minute{At: at, Ended: map[push.State]int64{}}
	for name, text := range fields {
		n, err := strconv.ParseInt(text, 10, 64)
		switch {
		case err != nil: // a foreign field
		case name == "sent":
			m.Sent = n
		case name == "deferred":
			m.Deferred = n
		case name == "waiting":
			m.Waiting = &n
		default:
			m.Ended[push.State(name)] = n
		}
	}
	return m
}
