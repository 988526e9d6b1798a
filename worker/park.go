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
)

// parkFor is how long what is for the gate stays on the queue; 0 when it may be
// pulled.
func (g *gate) parkFor(now time.Time) time.Duration {
	least := min(gateStill, max(leastStill, stillFactor*time.Duration(g.usual.Load())))
	still := g.stuck(now, least)
	if still == 0 || still < gateStill && g.waiting.Load() < int64(cap(g.places)/2) {
		return 0
	}
	return max(leastPark, min(still, longestBusy))
}

// parked are the arguments by which parkingScript knows what is for a stuck
// provider: of each the mark that its jobs have, and until when they stay (Unix
// s).
func (r routes) parked(now time.Time) (args []any) {
	for name, app := range r {
		for platform, route := range app {
			if length := route.gate.parkFor(now); length > 0 {
				args = append(args, push.OnlyMark(name, platform), now.Add(length).Unix())
			}
		}
	}
	return args
}

// parkingScript is dequeueScript that leaves what is only for a stuck provider
// on the queue, as asynq leaves what is to be retried.
//
// KEYS  pending, paused, active, lease, retry
// ARGV  end of the lease (s), prefix of the tasks' keys, how many; then what
// parked answers
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
