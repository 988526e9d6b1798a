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

// A Minute is what a worker did in one of them, or all workers.
type Minute struct {
	At time.Time `json:"at"` // it began
	// Sent is how many pushes were, Deferred how often a limit put a notification off,
	// and Ended how many ended, by their state.
	Sent     int64                `json:"sent"`
	Deferred int64                `json:"deferred"`
	Ended    map[push.State]int64 `json:"ended,omitempty"`
	// Waiting is how many notifications waited when it ended; nil where no worker has said so.
	Waiting *int64 `json:"waiting,omitempty"`
}

// Done reports whether anything was done in it.
func (m *Minute) Done() bool { return m.Sent+m.Deferred > 0 || len(m.Ended) > 0 }

// Failed is how many ended without a delivery that was to be: rejected, exhausted,
// undeliverable or malformed.
func (m *Minute) Failed() int64 {
	return m.Ended[push.Rejected] + m.Ended[push.Exhausted] + m.Ended[push.Undeliverable] + m.Ended[store.Malformed]
}

// Add adds what was done in the same minute.
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

// minuteLife is how long a minute is kept: a day, and an hour for those who draw it.
const minuteLife = 25 * time.Hour

// minuteKey is where the minute is that began then:
//
//	PREFIX:{throughput}:MINUTE  hash, of a Unix minute: how many by sent, deferred and the
//	                            states of those that ended; and waiting
//
// The minutes are those of the workers' own clocks.
func minuteKey(prefix string, at time.Time) string {
	return cmp.Or(prefix, "pushpace") + ":{throughput}:" + strconv.FormatInt(at.Unix()/60, 10)
}

// AddMinutes adds what a worker did in these minutes to what others did. After an error some
// of it may have been added, so that a second call may count it twice.
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
		return fmt.Errorf("add to what was done by the minute: %w", err)
	}
	return nil
}

// ReadMinutes returns what the workers did in the minutes from one until another, of which
// something is known, the oldest first. They keep it for a day.
func ReadMinutes(ctx context.Context, client redis.UniversalClient, prefix string, from, until time.Time) ([]Minute, error) {
	pipe := client.Pipeline()
	var asked []time.Time
	var answers []*redis.MapStringStringCmd
	for at := from.UTC().Truncate(time.Minute); !at.After(until); at = at.Add(time.Minute) {
		asked, answers = append(asked, at), append(answers, pipe.HGetAll(ctx, minuteKey(prefix, at)))
	}
	if _, err := pipeline.Exec(ctx, pipe); err != nil {
		return nil, fmt.Errorf("read what was done by the minute: %w", err)
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
		case err != nil: // it is none of ours
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
