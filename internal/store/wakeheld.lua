-- WakeHeld has held jobs come back: retry -> pending. A job that a worker has in hand stays held:
-- it may be on its way to the queue. One that has left the queue, or is due, is held no longer.
--
-- KEYS    holding, held:NAME, then retry, pending, due and idle of each queue
-- ARGV    NAME, how many, how many to look at, first or any, prefix of the tasks' keys of each
--         queue
-- answer  how many jobs are due, or parked, on the fullest queue; how many are held no longer; how many are
--         left, by their priority; the IDs of those that are woken
-- caller  Shard.WakeHeld, where a pause is over or a route opens
-- repeat  as often as wanted: others come then
local name, most, look = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local queues = {}
for q = 1, #ARGV - 4 do
  queues[q] = {retry = KEYS[4 * q - 1], pending = KEYS[4 * q], due = KEYS[4 * q + 1], idle = KEYS[4 * q + 2], tasks = ARGV[4 + q]}
end
local function wakeAnywhere(id)
  for _, queue in ipairs(queues) do
    local whole, became = pcall(wakeJob, queue, id) -- a key of another type is of one queue alone
    if whole and became then return became end
  end
end
local ids = {}
if ARGV[4] == 'any' then ids = redis.pcall('ZRANDMEMBER', KEYS[2], most)
elseif look > 0 then ids = redis.pcall('ZRANGE', KEYS[2], 0, look - 1) end
local woken, gone, due = {}, 0, 0
for _, id in ipairs(ids.err and {} or ids) do -- a key of another type holds nothing
  if #woken == most then break end
  local became = wakeAnywhere(id)
  if became == 'due' then woken[#woken + 1] = id end
  if became ~= 'in hand' then gone = gone + redis.call('ZREM', KEYS[2], id) end
end
if redis.call('EXISTS', KEYS[2]) == 0 then redis.pcall('SREM', KEYS[1], name) end
for _, queue in ipairs(queues) do -- a parked job, which is due too, has no instant
  local n, away, timed = redis.pcall('LLEN', queue.pending), redis.pcall('ZCARD', queue.retry), redis.pcall('ZCARD', queue.due)
  if type(n) == 'number' and type(away) == 'number' and type(timed) == 'number' then due = math.max(due, n + math.max(0, away - timed)) end
end
return {due, gone, countHeld(KEYS[2]), woken}
