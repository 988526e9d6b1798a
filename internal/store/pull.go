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

// A Bound says how many more jobs may be pulled that are for one name: see ParkName.
type Bound struct {
	Name string
	Room int // negative for what is closed
}

// A Pull is what a worker takes of a queue.
type Pull struct {
	Queue string
	Most  int
	// Term and Visit are the hand's: each pull of a term has another visit.
	Term  string
	Visit int64
	// Bounds say how many; of the names that they leave out any number may be taken.
	Bounds []Bound
}

// Pulled is what was taken.
type Pulled struct {
	Jobs  []Job
	Unfit []Unfit // are in hand too, and to be set aside
	Empty bool    // the queue, then
	// Due is after how long the next job of an empty queue is; negative for none.
	Due time.Duration
	// Parked are the names by which jobs are parked.
	Parked []string
}

// Pull takes jobs in hand, the first ones of the queue. Where it is empty then, whatever next
// puts a job there publishes that on the shard's channel. After an error some may be in hand
// that nobody knows of: their term has to end.
func (r *Shard) Pull(ctx context.Context, p Pull) (Pulled, error) {
	keys := r.queueKeys(p.Queue, "pending", "paused", "active", "retry", "scheduled", "due", "parked", "parked:", "idle", "room")
	its := hand(p.Term, p.Visit)
	args := []any{r.QueueKey(p.Queue, "t:"), p.Most, MaxEnvelopeSize, its, int(DrawParked() / time.Second), r.Channel(), int(idleFor / time.Second)}
	for _, b := range p.Bounds {
		args = append(args, b.Name, b.Room)
	}
	reply, err := pullScript.Run(ctx, r.client, keys, args...).Slice()
	if err != nil {
		return Pulled{}, err
	}
	us, _ := reply[2].(int64)
	got := Pulled{Empty: reply[0] == int64(1), Parked: texts(reply[1]), Due: time.Duration(us) * time.Microsecond}
	got.Jobs, got.Unfit = openAll(p.Queue, its, reply[3:])
	return got, nil
}

// queueKeys are keys of a queue by their names.
func (r *Shard) queueKeys(queue string, names ...string) []string {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = r.QueueKey(queue, name)
	}
	return keys
}
