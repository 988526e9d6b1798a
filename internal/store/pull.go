package store

import (
	"context"
	_ "embed"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed pull.lua
var pullSource string

var pullScript = redis.NewScript(readMessage + parkAs + pullSource)

// A Bound is the number of jobs for one ParkName that may still be pulled.
type Bound struct {
	Name string
	Room int // negative for a closed route or pause
}

// A Pull describes the jobs that a worker takes from a queue.
type Pull struct {
	Queue string
	Most  int
	// Term and Visit make the claim: each pull of a term has its own Visit.
	Term  string
	Visit int64
	// Bounds limit the jobs by ParkName. A route or user without a Bound is unlimited; a pause or
	// quota without a Bound has no room.
	Bounds []Bound
}

// Pulled is the result of a Pull.
type Pulled struct {
	Jobs  []Job
	Unfit []Unfit // claimed too; the caller sets them aside
	Empty bool    // the queue is empty now
	// Due is the time until the next job of an empty queue is due; negative for none.
	Due time.Duration
	// Parked are the names with parked jobs.
	Parked []string
}

// Pull claims the first jobs of the queue. If the queue is then empty, the shard's channel
// announces the next job on it. After an error, the claim may hold jobs unknown to the caller: end
// the term.
func (r *Shard) Pull(ctx context.Context, p Pull) (Pulled, error) {
	keys := r.queueKeys(p.Queue, "pending", "paused", "active", "retry", "scheduled", "due", "parked", "parked:", "idle", "room")
	its := claimOf(p.Term, p.Visit)
	args := []any{r.QueueKey(p.Queue, "t:"), p.Most, MaxEnvelopeSize, its, int(DrawParkTime() / time.Second), r.Channel(), int(idleTTL / time.Second)}
	for _, b := range p.Bounds {
		args = append(args, b.Name, b.Room)
	}
	reply, err := pullScript.Run(ctx, r.client, keys, args...).Slice()
	if err != nil {
		return Pulled{}, err
	}
	us, _ := reply[2].(int64)
	got := Pulled{Empty: reply[0] == int64(1), Parked: stringsOf(reply[1]), Due: time.Duration(us) * time.Microsecond}
	got.Jobs, got.Unfit = openAll(p.Queue, its, reply[3:])
	return got, nil
}

// queueKeys returns keys of a queue by their names.
func (r *Shard) queueKeys(queue string, names ...string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = r.QueueKey(queue, name)
	}
	return keys
}
