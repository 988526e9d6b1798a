package worker

import (
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/pushpace/pushpace/push"
)

// While a provider is stuck, most of what is pulled may be for it. Each such job
// would go through asynq and back for nothing, at the cost of those for the
// other providers: the pull leaves it on the queue for a while.

const (
	// A gate is one to park for when it is full, nothing has moved for several
	// times as long as a place is usually taken, within these bounds, and half as
	// many stand before it as fit in.
	leastStill  = 100 * time.Millisecond
	stillFactor = 3
	leastPark   = 2 * time.Second
	// parkGap lies between the ends of two jobs' parking, on the whole, so that
	// many of them do not keep the queue busy with coming and going.
	parkGap = 100 * time.Microsecond
	// parkRounds is how many scripts one pull runs that find nothing but what is
	// parked.
	parkRounds = 8
)

// parkUntil is until when what is for the gate stays on the queue; zero when it
// may be pulled.
func (g *gate) parkUntil(now time.Time) time.Time {
	least := min(gateStill, max(leastStill, stillFactor*time.Duration(g.usual.Load())))
	still := g.stuck(now, least)
	if still == 0 || still < gateStill && g.waiting.Load() < int64(cap(g.places)/2) {
		return time.Time{}
	}
	until := now.Add(max(leastPark, min(still, longestBusy)))
	if last := time.Unix(0, g.parked.Load()); last.After(until) {
		return last
	}
	return until
}

// parkedTo notes that so many jobs stay on the queue until then.
func (g *gate) parkedTo(until time.Time, n int64) {
	g.parked.Store(until.Add(time.Duration(n) * parkGap).UnixNano())
}

// A stuck gate is one whose jobs stay on the queue until then.
type stuck struct {
	*gate
	mark  string // that its jobs have
	until time.Time
}

func (r routes) stuck(now time.Time) (all []stuck) {
	for name, app := range r {
		for platform, route := range app {
			if until := route.gate.parkUntil(now); !until.IsZero() {
				all = append(all, stuck{route.gate, push.OnlyMark(name, platform), until})
			}
		}
	}
	return all
}

// parkingScript is dequeueScript that leaves what is only for a stuck provider
// on the queue, as asynq leaves what is to be retried.
//
// KEYS  pending, paused, active, lease, retry
// ARGV  end of the lease (s), prefix of the tasks' keys, how many at a time; then
// of each stuck gate its mark and until when its jobs stay (Unix s)
//
// It answers how many were parked, and then pairs of ID and message.
var parkingScript = redis.NewScript(`
local answer = {0}
if redis.call('EXISTS', KEYS[2]) == 1 then return answer end
local head = 0
for i = 4, #ARGV, 2 do head = math.max(head, 128 + #ARGV[i]) end
local function due(message)
  message = string.sub(message, 1, head) -- the mark comes before the notification
  for i = 4, #ARGV, 2 do
    if string.find(message, ARGV[i], 1, true) then return ARGV[i + 1] end
  end
end
local most = tonumber(ARGV[3])
while #answer < 2 * most and answer[1] < 256 do
  local ids = redis.call('RPOP', KEYS[1], most)
  if not ids or #ids == 0 then break end
  local later = {}
  for _, id in ipairs(ids) do
    local key = ARGV[2] .. id
    local message = redis.call('HGET', key, 'msg')
    local at = message and due(message)
    if at then
      later[#later + 1] = at
      later[#later + 1] = id
      redis.call('HSET', key, 'state', 'retry')
    else
      redis.call('LPUSH', KEYS[3], id)
      redis.call('HSET', key, 'state', 'active')
      redis.call('HDEL', key, 'pending_since')
      redis.call('ZADD', KEYS[4], ARGV[1], id)
      if message then
        answer[#answer + 1] = id
        answer[#answer + 1] = message
      end
    end
  end
  if #later > 0 then redis.call('ZADD', KEYS[5], unpack(later)) end
  answer[1] = answer[1] + #later / 2
end
return answer
`)
