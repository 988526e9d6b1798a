-- Heartbeat records a term's heartbeat, unless the term is dead. A Redis that is out of memory does
-- not refuse its first write, and so none of the later writes. A dead term is entered as dead once
-- more: jobs may have been claimed in its name since its orphans were reaped.
--
-- KEYS    signs: the terms, by their last heartbeat (s), and 0 for a dead one
-- ARGV    the term; 1 for its first heartbeat; the silence after which a term is dead (s); 1 to look for dead
--         terms
-- answer  1 if this term is the first living one by name, else 0; then the terms found
--         dead. nil if this term is dead
-- caller  Shard.Heartbeat, once a second
-- repeat  as often as wanted
local signs, term, limit = KEYS[1], ARGV[1], tonumber(ARGV[3])
redis.call('EXPIRE', signs, 86400)
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local signed = tonumber(redis.call('ZSCORE', signs, term) or 0)
if signed == 0 and ARGV[2] ~= '1' then
  redis.call('ZADD', signs, 0, term)
  return false
end
redis.call('ZADD', signs, string.format('%.3f', now), term)
local function leads()
  for from = 0, 1000000, 16 do -- nearly every term soon finds an earlier term
    local some = redis.call('ZREVRANGEBYSCORE', signs, '+inf', string.format('(%.3f', now - limit), 'LIMIT', from, 16)
    for _, id in ipairs(some) do
      if id < term then return 0 end
    end
    if #some < 16 then return 1 end
  end
end
local answer = {leads()}
if ARGV[4] ~= '1' or signed < now - limit then return answer end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', signs, string.format('(%.3f', now + 1), '+inf')) do -- heartbeats of the future, as the clock was set back
  redis.call('ZADD', signs, string.format('%.3f', now), id)
end
local dead = redis.call('ZRANGEBYSCORE', signs, '-inf', string.format('%.3f', now - limit), 'LIMIT', 0, 16)
for _, id in ipairs(dead) do
  redis.call('ZADD', signs, 0, id)
  answer[#answer + 1] = id
end
return answer
