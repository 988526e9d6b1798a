-- The overrides and their audit log, which followers poll for changes.
-- KEYS  hash:   level, as app=shop&user=u1 -> "ENTRY BY SETTING", ENTRY of the log
--       zset:   the fields with an end, by Unix ms
--       stream: the log; an entry's ID is VERSION-MS, versions count from 1
-- ARGV  change, entries of the log to keep, field, by, setting ('' to remove), end
--       (ms, 0 for none), largest number of overrides, expected VERSION (0 for no override;
--       left out: any)
--       changes, entries to keep, last known entry, largest number of entries to return
local hash, ends, log = KEYS[1], KEYS[2], KEYS[3]
local op, keep = ARGV[1], ARGV[2]
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local function text(n) return string.format('%.0f', n) end

-- note writes a log entry, and returns the new value and an error. Its caller makes the change
-- afterwards: a Redis without memory rejects the entry, and then nothing changes.
local function note(field, why, by, from, setting)
  local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  local version = last and tonumber(string.match(last[1], '^%d+')) + 1 or 1
  local id = text(version) .. '-' .. text(now)
  local to = setting ~= '' and id .. ' ' .. by .. ' ' .. setting or ''
  local answer = redis.pcall('XADD', log, 'MAXLEN', '~', keep, id, 'field', field, 'why', why, 'by', by, 'from', from, 'to', to)
  return to, type(answer) == 'table' and answer.err and answer
end

if op == 'change' then
  local field, by, setting, over = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
  if over > 0 and over <= now then return -1 end
  local old = redis.call('HGET', hash, field)
  if ARGV[8] and (old and string.match(old, '^%d+') or '0') ~= ARGV[8] then return -3 end
  if setting == '' and not old or setting ~= '' and old and string.match(old, '^%S+ %S+ (.*)$') == setting then return 0 end
  if not old and redis.call('HLEN', hash) >= tonumber(ARGV[7]) then return -2 end
  local to, failed = note(field, setting == '' and 'unset' or 'set', by, old or '', setting)
  if failed then return failed end
  if to == '' then redis.call('HDEL', hash, field) else redis.call('HSET', hash, field, to) end
  if over > 0 then redis.call('ZADD', ends, over, field) else redis.call('ZREM', ends, field) end
  return 1
end

-- changes: the first poll after an override's end removes the override
for _, field in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', text(now), 'LIMIT', 0, 100)) do
  local old = redis.call('HGET', hash, field)
  if old then
    local _, failed = note(field, 'ended', 'pushpace', old, '')
    if failed then break end -- followers ignore ended overrides anyway
    redis.call('HDEL', hash, field)
  end
  redis.call('ZREM', ends, field)
end
local last = ARGV[3]
if last ~= '0-0' and not redis.call('XRANGE', log, last, last)[1] then return {text(now), 1, {}} end
return {text(now), 0, redis.call('XRANGE', log, '(' .. last, '+', 'COUNT', ARGV[4])}
