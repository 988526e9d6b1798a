-- What keeps notifications on the queue, on Redis's clock, in ms since 1970.
-- KEYS  1 hash of the providers' pauses: APP/PLATFORM or APP/PLATFORM/CREDENTIAL ->
--         entry, JSON as pause.go says; its claim is the host that alone says so
--       2 hash of the operators': SELECTOR -> entry; for a while after it was ended,
--         with ended_by
--       3 hash: APP/PLATFORM -> JSON {at, by}, when an operator had it tried again last
--       4 set of what keeps jobs: SELECTORs, and APP/PLATFORM for routes
--       5 sorted set of the jobs of one of them: "QUEUE ID" by priority and acceptance,
--         QUEUE empty when it is not known; for read, how all of these begin
--       6 sorted set of those of them that a worker wakes, by until when; likewise
--       7 channel of those who watch what happens, while somebody does
-- ARGV  op, then the operation's own
local providers, operators, tried, keeping, jobs, waking, watched = unpack(KEYS)
local op = ARGV[1]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local told = 60000 -- every worker knows by then

local function text(ms) return string.format('%.0f', ms) end
local function read(value) -- an entry, and when it ends; nil for one that cannot be read
  local ok, entry = pcall(cjson.decode, value)
  local ends = ok and type(entry) == 'table' and tonumber(entry.ends)
  if ends then return entry, ends end
end

if op == 'read' then -- ARGV what has happened, if anything
  local channel = redis.pcall('GET', watched)
  if type(channel) ~= 'string' then channel = '' end
  if channel ~= '' and ARGV[2] ~= '' then redis.pcall('PUBLISH', channel, ARGV[2]) end
  local function count(set)
    local n = redis.pcall('ZCARD', set)
    return type(n) == 'number' and n or 0
  end
  local kept = {} -- how many jobs each keeps
  for _, name in ipairs(redis.call('SMEMBERS', keeping)) do
    kept[#kept + 1] = name
    kept[#kept + 1] = count(jobs .. name) + count(waking .. name)
  end
  return {now, redis.call('HGETALL', providers), redis.call('HGETALL', operators), redis.call('HGETALL', tried), kept, channel}
elseif op == 'watch' then -- ARGV channel, for how long; all who watch have the first one's
  local channel = redis.call('GET', watched) or ARGV[2]
  redis.call('SET', watched, channel, 'PX', ARGV[3])
  redis.pcall('PUBLISH', channel, '') -- by which they know that they hear
  return channel
elseif op == 'try' then -- ARGV by, APP/PLATFORM...
  for i = 3, #ARGV do
    for _, field in ipairs(redis.call('HKEYS', providers)) do
      if field == ARGV[i] or string.sub(field, 1, #ARGV[i] + 1) == ARGV[i] .. '/' then redis.call('HDEL', providers, field) end
    end
    redis.call('HSET', tried, ARGV[i], cjson.encode({at = text(now), by = ARGV[2]}))
  end
  return redis.call('PEXPIRE', tried, told)
elseif op == 'share' then -- ARGV field, length (0 for no end), entry
  -- what a worker says is borne out by another host until so long after its end
  local memory = 300000
  local field, length, entry = ARGV[2], tonumber(ARGV[3]), cjson.decode(ARGV[4])
  local ends = length > 0 and now + length or 0
  local old, stands = read(redis.call('HGET', providers, field) or '')
  if old then
    local lasts = stands == 0 or stands > now
    if not old.claim then
      if lasts and (stands == 0 or ends ~= 0 and stands >= ends) then return 0 end -- the longer one stands
      if lasts then entry.claim = nil end
    elseif old.claim ~= entry.claim and stands + memory > now then
      entry.claim = nil
    end
  end
  local lives, life = redis.call('PTTL', providers), length
  if entry.claim then life = length + memory end
  entry.ends = text(ends)
  redis.call('HSET', providers, field, cjson.encode(entry))
  if ends == 0 then
    redis.call('PERSIST', providers)
  elseif lives ~= -1 and lives < life then -- all of it ends with the last pause
    redis.call('PEXPIRE', providers, life)
  end
  return entry.claim and 2 or 1
end

local selector = ARGV[2]
local function forget() -- the SELECTOR, when it keeps nothing more
  if redis.call('EXISTS', jobs, waking) == 0 then redis.call('SREM', keeping, selector) end
  return 1
end
if op == 'add' then -- ARGV how long at most, score, jobs
  for i = 5, #ARGV do
    redis.call('ZREM', waking, ARGV[i])
    redis.call('ZADD', jobs, ARGV[4], ARGV[i])
  end
  redis.call('PEXPIRE', jobs, ARGV[3])
  return redis.call('SADD', keeping, selector)
elseif op == 'pop' then -- ARGV how long at most, how many, for how long, first or any
  redis.call('ZREM', waking, '') -- which a full Redis takes, and then the rest
  -- those come first that were popped and not woken
  local popped = redis.call('ZRANGEBYSCORE', waking, '-inf', now, 'LIMIT', 0, ARGV[4])
  if ARGV[6] == 'any' then
    for _, job in ipairs(redis.call('ZRANDMEMBER', jobs, ARGV[4] - #popped)) do
      redis.call('ZREM', jobs, job)
      popped[#popped + 1] = job
    end
  else
    local first = redis.call('ZPOPMIN', jobs, ARGV[4] - #popped)
    for i = 1, #first, 2 do popped[#popped + 1] = first[i] end
  end
  for _, job in ipairs(popped) do redis.call('ZADD', waking, now + ARGV[5], job) end
  redis.call('PEXPIRE', waking, ARGV[3])
  forget()
  return popped
elseif op == 'woken' then -- ARGV jobs
  for i = 3, #ARGV do redis.call('ZREM', waking, ARGV[i]) end
  return forget()
end

local all = redis.call('HGETALL', operators)
for i = 1, #all, 2 do -- what is over goes
  local _, ends = read(all[i + 1])
  if ends and ends ~= 0 and ends <= now then redis.call('HDEL', operators, all[i]) end
end
if op == 'end' then -- ARGV by; what is left of it tells the workers who it was
  redis.call('HDEL', operators, '') -- which a full Redis takes, and then the rest
  local value = redis.call('HGET', operators, selector)
  if not value then return 0 end
  local entry = read(value)
  if not entry then return redis.call('HDEL', operators, selector) end
  entry.ends, entry.ended_by = text(now), ARGV[3]
  redis.call('HSET', operators, selector, cjson.encode(entry))
  if redis.call('HLEN', operators) == 1 then redis.call('PEXPIRE', operators, told) end
  return 1
end

-- begin: ARGV entry, how many there may be
local entry, ends = read(ARGV[3])
if ends ~= 0 and ends <= now then return -1 end
if redis.call('HEXISTS', operators, selector) == 0 and redis.call('HLEN', operators) >= tonumber(ARGV[4]) then return -2 end
entry.begun = text(now)
redis.call('PERSIST', operators)
redis.call('HSET', operators, selector, cjson.encode(entry))
return 1
