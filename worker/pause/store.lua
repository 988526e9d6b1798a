-- Pauses of notifications, on Redis's clock, in ms since 1970.
-- KEYS  1 hash of providers' delays: APP/PLATFORM -> entry, JSON of type entry in pause.go
--       2 hash of operators' pauses: SELECTOR -> entry; with ended_by for a minute after its end
--       3 hash of operators' last resumes: APP/PLATFORM -> JSON {at, by}
-- ARGV  op, then the arguments of the operation
local providers, operators, tried = unpack(KEYS)
local op = ARGV[1]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local kept = 60000 -- within this time every worker has read an entry

local function text(ms) return string.format('%.0f', ms) end
local function read(value) -- returns an entry and its end; nil for an unreadable one
  local ok, entry = pcall(cjson.decode, value)
  local ends = ok and type(entry) == 'table' and tonumber(entry.ends)
  if ends then return entry, ends end
end

if op == 'read' then
  return {now, redis.call('HGETALL', providers), redis.call('HGETALL', operators), redis.call('HGETALL', tried)}
elseif op == 'try' then -- ARGV by, APP/PLATFORM...
  for i = 3, #ARGV do
    redis.call('HDEL', providers, ARGV[i])
    redis.call('HSET', tried, ARGV[i], cjson.encode({at = text(now), by = ARGV[2]}))
  end
  return redis.call('PEXPIRE', tried, kept)
elseif op == 'share' then -- ARGV APP/PLATFORM, length, entry; the delay that ends later is kept
  local route, length, entry = ARGV[2], tonumber(ARGV[3]), cjson.decode(ARGV[4])
  local ends = now + length
  local old, stands = read(redis.call('HGET', providers, route) or '')
  if old and stands >= ends then return 0 end
  entry.ends = text(ends)
  redis.call('HSET', providers, route, cjson.encode(entry))
  if redis.call('PTTL', providers) < length then redis.call('PEXPIRE', providers, length) end -- expires with the last delay
  return 1
end

local selector = ARGV[2]
local all, standing = redis.call('HGETALL', operators), 0
for i = 1, #all, 2 do -- removes ended entries; an entry with ended_by only after every worker has read it
  local entry, ends = read(all[i + 1])
  local named = entry and entry.ended_by
  if ends and ends ~= 0 and ends <= now - (named and kept or 0) then redis.call('HDEL', operators, all[i])
  elseif not named then standing = standing + 1 end
end
if op == 'end' then -- ARGV by; the entry stays for a minute, to name the operator
  redis.call('HDEL', operators, '') -- a full Redis accepts this command, and the writes after it
  local value = redis.call('HGET', operators, selector)
  if not value then return 0 end
  local entry = read(value)
  if not entry then return redis.call('HDEL', operators, selector) end
  if entry.ended_by then return 0 end
  entry.ends, entry.ended_by = text(now), ARGV[3]
  redis.call('HSET', operators, selector, cjson.encode(entry))
  if standing == 1 then redis.call('PEXPIRE', operators, kept) end
  return 1
end

-- begin: ARGV entry, maximum of pauses
local entry, ends = read(ARGV[3])
if ends ~= 0 and ends <= now then return -1 end
local value = redis.call('HGET', operators, selector)
local old = read(value or '')
if (not value or old and old.ended_by) and standing >= tonumber(ARGV[4]) then return -2 end
entry.begun = text(now)
redis.call('PERSIST', operators)
redis.call('HSET', operators, selector, cjson.encode(entry))
return now
