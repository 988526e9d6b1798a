package store

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/internal/base/acknowledged"
	"github.com/pushpace/pushpace/internal/base/shard"
)

// Jobs that an operator's pause or a closed route holds lie on their queue like all that
// return, and are noted in their shard beside it:
//
//	holding      set of the names of what holds jobs: a pause's selector, or a route's name
//	held:NAME    sorted set of the IDs of those, by priority and acceptance

// Held is how many jobs something holds, by their priority, the most urgent first.
type Held [3]int64

// All is how many these are together.
func (h Held) All() int64 { return h[0] + h[1] + h[2] }

// each is how many ms each priority has in the scores of held jobs: more than there will be.
const each = 1e13

// score is where a held job lies: by its priority, and among those by its acceptance.
func score(queue string, accepted time.Time) int64 {
	rank := max(0, slices.Index(shard.Queues, queue))
	return int64(rank)*each + min(max(accepted.UnixMilli(), 0), each-1)
}

// heldLives is how long it is remembered what a name holds, after the last job that looked
// by itself whether it is still held: longer than any stays away.
const heldLives = 2 * time.Hour

// holdScript notes held jobs.
//
// KEYS  holding, held:NAME
// ARGV  NAME, for how long, the score, IDs
var holdScript = redis.NewScript(`
for i = 4, #ARGV do redis.call('ZADD', KEYS[2], ARGV[3], ARGV[i]) end
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return redis.call('SADD', KEYS[1], ARGV[1])
`)

// Hold notes that the jobs are held by that name, until they are woken. Their place among
// the others is that of one of this queue and acceptance.
func (r *Shard) Hold(ctx context.Context, name, queue string, accepted time.Time, ids ...string) error {
	args := []any{name, heldLives.Milliseconds(), score(queue, accepted)}
	for _, id := range ids {
		args = append(args, id)
	}
	if err := holdScript.Run(ctx, r.client, r.heldKeys(name), args...).Err(); err != nil {
		return fmt.Errorf("note what is held: %w", err)
	}
	return nil
}

func (r *Shard) heldKeys(name string) []string {
	return []string{r.Key("holding"), r.Key("held:" + name)}
}

// countHeld is Lua: countHeld returns how many of a priority each such a set has.
const countHeld = `
local each = 10000000000000
local function countHeld(set)
  local counts = {}
  for rank = 0, 2 do
    local n = redis.pcall('ZCOUNT', set, rank * each, '(' .. (rank + 1) * each)
    counts[rank + 1] = type(n) == 'number' and n or 0
  end
  return counts
end
`

// heldScript returns what holds jobs, and how many of each priority. What has lapsed holds
// none.
//
// KEYS  holding, held: as all such keys begin, which are of the same slot
var heldScript = acknowledged.Reader(redis.NewScript(countHeld + `
local all, names = {}, redis.pcall('SMEMBERS', KEYS[1])
for _, name in ipairs(names.err and {} or names) do
  if redis.call('EXISTS', KEYS[2] .. name) == 1 then
    all[#all + 1] = {name, unpack(countHeld(KEYS[2] .. name))}
  else
    redis.pcall('SREM', KEYS[1], name)
  end
end
return all
`))

// Held returns what holds jobs of the shard, by name, and how many.
func (r *Shard) Held(ctx context.Context) (map[string]Held, error) {
	list, err := heldScript.Run(ctx, r.client, r.heldKeys("")).Slice()
	if err != nil {
		return nil, fmt.Errorf("list what is held: %w", err)
	}
	all := make(map[string]Held, len(list))
	for _, entry := range list {
		if entry, ok := entry.([]any); ok && len(entry) > 0 {
			if held := readHeld(entry[1:]); held.All() > 0 {
				all[fmt.Sprint(entry[0])] = held
			}
		}
	}
	return all, nil
}

func readHeld(counts []any) (h Held) {
	for i := range min(len(h), len(counts)) {
		h[i], _ = counts[i].(int64)
	}
	return h
}

// Which of the held jobs are woken.
type Which string

// FirstHeld are those of the highest priority, and among them the first accepted. AnyHeld are
// drawn at random.
const (
	FirstHeld Which = "first"
	AnyHeld   Which = "any"
)

// spare is how many more of the first are looked at than are to be woken: those that a
// worker has in hand are passed over.
const spare = 100

//go:embed wakeheld.lua
var wakeHeldSource string

var wakeHeldScript = redis.NewScript(WakeIdle + wakeJobSource + countHeld + wakeHeldSource)

// Woken is what became of held jobs.
type Woken struct {
	IDs []string // of those that are due
	// Gone is how many are held no longer, those that are due among them.
	Gone int
	Left Held
	// Due is how many jobs of the shard's fullest queue are.
	Due int64
}

// WakeHeld has so many of the jobs that are held by that name come back.
func (r *Shard) WakeHeld(ctx context.Context, name string, most int, which Which) (w Woken, err error) {
	keys := r.heldKeys(name)
	look := 0
	if most > 0 {
		look = most + spare
	}
	args := []any{name, most, look, string(which)}
	for _, queue := range shard.Queues {
		keys = append(keys, r.queueKeys(queue, "retry", "pending", "due", "idle")...)
		args = append(args, r.QueueKey(queue, "t:"))
	}
	reply, err := wakeHeldScript.Run(ctx, r.client, keys, args...).Slice()
	if err != nil {
		return w, fmt.Errorf("wake what was held: %w", err)
	}
	if len(reply) != 4 {
		return w, fmt.Errorf("wake what was held: Redis answered %d values", len(reply))
	}
	w.Due, _ = reply[0].(int64)
	gone, _ := reply[1].(int64)
	w.Gone = int(gone)
	left, _ := reply[2].([]any)
	w.Left = readHeld(left)
	ids, _ := reply[3].([]any)
	for _, id := range ids {
		w.IDs = append(w.IDs, fmt.Sprint(id))
	}
	return w, nil
}
