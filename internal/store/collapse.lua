-- Collapse claims a collapse key for its newest notification. The claim, "INSTANT ID", lives while
-- that notification waits, and for the retention after its end: see settle.lua. A record has
--
--   collapse  the claim's key; '' once a newer notification has the claim: then this one ends as
--             superseded when it is processed next, unless it is taken from its queue before
--   elder     the ID of the older notification that had the claim before
--
-- KEYS    the claim, the record
-- ARGV    acceptance (us), ID, the prefix of the records' keys, the longest life of a claim (ms)
-- answer  the elder, '' for none; nil if a newer notification has the claim
-- caller  Shard.Collapse, each time that a worker processes the notification
-- repeat  as often as wanted
local claim, record = KEYS[1], KEYS[2]
local at, id, records, life = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4]
local own = redis.call('HMGET', record, 'state', 'collapse', 'elder')
if own[2] == '' then return false end
local elder = own[3] or ''
local its, other = string.match(redis.call('GET', claim) or '', '^(%d+) (.*)$')
if other and other ~= id then
  its = tonumber(its)
  if its > at or its == at and other > id then return false end
  if redis.call('HGET', records .. other, 'state') == 'waiting' then
    redis.call('HSET', records .. other, 'collapse', '')
    elder = other
  end
end
redis.call('SET', claim, ARGV[1] .. ' ' .. id, 'PX', life)
if own[1] == 'waiting' then redis.call('HSET', record, 'collapse', claim) end
if own[1] == 'waiting' and elder ~= '' then redis.call('HSET', record, 'elder', elder) end
return elder
