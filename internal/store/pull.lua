-- Pull claims jobs of a queue: pending -> active. First it moves due delayed jobs to the head of
-- the queue, as they have waited for their turn, but at most half as many as it may still claim. It
-- parks a job that has no room: pending -> parked. This script parks a job by its only route, or by
-- its user and category (push.UserMark); putoff.lua parks by other names. If a name has several
-- parts, separated by tabs, the part with the most room counts. When a parked job's time is up, it
-- is claimed even without room.
--
-- Its first write changes nothing. A Redis that is out of memory refuses this write, because
-- claimed jobs could not be finished. Once a job is claimed, no job's key can make the script fail,
-- so that no job is lost. One of its keys never exists, so that a Cluster does not run the script
-- while the hash slot migrates: then a task may be on another master.
--
-- KEYS    pending, paused, active, retry, scheduled, due, the names with parked jobs,
--         parked: as the prefix of their sets, idle, a string that never exists
-- ARGV    prefix of the tasks' keys; the most jobs; the longest message to read; the claim; after how
--         long (s) a parked job is claimed without room; the channel of idle workers, and the TTL (s) of
--         the flag that names it; then for each bounded name how many more jobs may be claimed, -1
--         if it is closed
-- answer  1 if the queue is empty now; the names with parked jobs; after how long the
--         next job of an empty queue is due (us, -1 for none); for each job its ID, message,
--         last, failed, back, and 1 if it was parked
-- caller  Shard.Pull, from a worker's loop
-- repeat  never: jobs of a lost answer return when the worker's term ends
local pending, active, retry, scheduled, delayed = KEYS[1], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local names, parkedOf, idle = KEYS[7], KEYS[8], KEYS[9]
local tasks, most, longest, claim, stay, channel, life = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], tonumber(ARGV[5]), ARGV[6], ARGV[7]
if redis.call('EXISTS', KEYS[2]) == 1 then return {1, {}, -1} end
redis.call('SETRANGE', KEYS[10], 0, '')
redis.call('LLEN', pending) -- fail before any change if a key has the wrong type
redis.call('LLEN', active)
for set = 4, 6 do redis.call('ZCARD', KEYS[set]) end
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local bounds, parked, bounded = {}, {}, #ARGV > 7
for i = 8, #ARGV, 2 do bounds[ARGV[i]] = tonumber(ARGV[i + 1]) end
for _, name in ipairs(redis.call('SMEMBERS', names)) do parked[name], bounded = true, true end
local ids, taken, looked, answer = {}, {}, {}, {0, {}, -1}
local odd = string.match(claim, '%d+$') % 2 -- if most is 1, the half of most alternates between 0 and 1

local function since(key) -- when the job became due, as a text: its position on the queue
  local ns = redis.pcall('HGET', key, 'pending_since')
  return type(ns) == 'string' and ns or string.format('%.0f000', now)
end
local function idOf(place) -- a place is "INSTANT ID"
  return string.sub(place, (string.find(place, ' ', 1, true) or 0) + 1)
end
local function namesOf(message) -- the only route and the user of a job, if anything is bounded
  if not bounded or type(message) ~= 'string' then return nil end
  local route = string.match(string.sub(message, 1, 512), ',"only":"([^"]*)","notification":{') -- the envelope writes "only" before the notification
  if not route then return nil end
  local head = string.gsub(string.gsub(string.sub(message, 1, 2048), '\\\\', '\2'), '\\"', '\1')
  local user, rest = string.match(head, ',"notification":{"id":"[^"]*",("app":"[^"]*","user":"[^"]*")(.*)')
  local category = user and string.match(rest, '^,"category":"[^"]*"') or ''
  return route, user and user .. category
end

local function roomOf(name) -- a route without a bound is unlimited; a pause or quota that the caller does not know yet has no room
  local most = -1
  for part in string.gmatch(name, '[^\t]+') do
    local unknown = string.match(part, '^"[pq]') and 0 or math.huge -- pause or quota
    most = math.max(most, bounds[part] or unknown)
  end
  return most
end
local function use(name)
  for part in string.gmatch(name or '', '[^\t]+') do
    if (bounds[part] or 0) > 0 then bounds[part] = bounds[part] - 1 end
  end
end

local function park(id, key, name)
  local place = since(key) .. ' ' .. id
  if not parkAs(parkedOf, names, name, place) then return false end
  parked[name] = true
  -- a job that a closed route delays does not count as new: the limiter does not reject it
  if roomOf(name) < 0 then redis.call('HSETNX', key, 'last', '{"why":"provider_paused"}') end
  redis.call('HSET', key, 'state', 'retry', 'parked', parkedAs(name, place))
  local back = now + stay * 1000000
  redis.call('ZADD', retry, math.ceil(back / 1000000), id)
  redis.call('ZADD', delayed, string.format('%.0f', back), id)
  return true
end

-- full reports whether to park a job by that name; a new job also if the name has parked jobs.
local function full(name, new) return name and (new and parked[name] or roomOf(name) < 1) end

local function take(id, wasParked)
  if taken[id] then return end
  local key = tasks .. id
  local message = read(key, longest)
  if not message and redis.call('EXISTS', key) == 0 then return end -- its job has ended
  local route, user = namesOf(message)
  if user and redis.pcall('HEXISTS', key, 'last') == 1 then user = nil end -- the job may have a slot
  -- a closed route keeps no slots: the worker gives the job's slot back
  if route and roomOf(route) < 0 and string.find(redis.pcall('HGET', key, 'last') or '', '"why":"deferred"', 1, true) then looked[id] = true end
  if not looked[id] then
    if user ~= wasParked and full(user, not wasParked) and park(id, key, user) then return end
    if route ~= wasParked and full(route, not wasParked) and park(id, key, route) then return end
  end
  use(route)
  use(user)
  if wasParked ~= route and wasParked ~= user then use(wasParked) end
  local known = {}
  if message ~= -1 then
    redis.call('HSET', key, 'state', 'active', 'worker', claim)
    redis.call('HDEL', key, 'parked')
    known = redis.call('HMGET', key, 'last', 'failed', 'back')
  end
  ids[#ids + 1], taken[id] = id, true
  for _, value in ipairs({id, message or '', known[1] or '', known[2] or '', known[3] or '', wasParked and '1' or ''}) do answer[#answer + 1] = value end
end

local function unpark(name, n) -- claims up to n jobs parked by that name, within its room
  local gone, broken = 0, false -- gone counts entries of jobs that are no longer parked by name
  n = math.min(#ids + n, most, #ids + roomOf(name))
  if n <= #ids then return end
  while #ids < n and gone < 256 do
    local entries = redis.pcall('ZPOPMIN', parkedOf .. name, n - #ids)
    broken = entries.err or #entries == 0
    if broken then break end
    for i = 1, #entries, 2 do
      local id, before = idOf(entries[i]), #ids
      if redis.pcall('HGET', tasks .. id, 'parked') == parkedAs(name, entries[i]) and redis.call('ZREM', retry, id) == 1 then
        redis.call('ZREM', delayed, id)
        take(id, name)
      end
      if #ids == before then gone = gone + 1 end
    end
  end
  if broken or redis.call('EXISTS', parkedOf .. name) == 0 then
    redis.call('SREM', names, name)
    parked[name] = nil
  end
end

if bounded then -- parked jobs get at most half, so that other jobs do not wait behind all of them
  local half = math.floor((most + odd) / 2)
  local some = redis.call('SRANDMEMBER', names, half)
  for _, name in ipairs(some) do unpark(name, math.ceil(half / #some)) end
end

local function forward(id) -- to the head of the queue
  local key = tasks .. id
  if redis.call('ZREM', retry, id) + redis.call('ZREM', scheduled, id) == 0 then return end
  redis.call('RPUSH', pending, id)
  looked[id] = redis.pcall('HDEL', key, 'parked') == 1
  redis.pcall('HSET', key, 'state', 'pending')
  if not looked[id] then redis.pcall('HSET', key, 'pending_since', string.format('%.0f000', now)) end
end
local due = redis.call('ZRANGEBYSCORE', delayed, '-inf', string.format('%.0f', now), 'LIMIT', 0, math.floor((most - #ids + odd) / 2))
if #due > 0 then redis.call('ZREM', delayed, unpack(due)) end
for i = #due, 1, -1 do forward(due[i]) end

local seen = 0
while #ids < most and seen < 256 do
  local popped = redis.call('RPOP', pending, most - #ids)
  if not popped then
    answer[1] = 1
    local next = redis.call('ZRANGE', delayed, 0, 0, 'WITHSCORES')[2]
    if next then answer[3] = math.max(0, math.ceil(next - now)) end
    redis.pcall('SET', idle, channel, 'EX', life)
    break
  end
  seen = seen + #popped
  for _, id in ipairs(popped) do take(id) end
end
if bounded then
  for _, name in ipairs(redis.call('SMEMBERS', names)) do unpark(name, most) end
  answer[2] = redis.call('SMEMBERS', names)
end
if #ids > 0 then redis.call('LPUSH', active, unpack(ids)) end
return answer
