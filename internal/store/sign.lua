-- Sign leaves a term's sign of life, unless the term is dead. It begins with what a Redis without
-- memory does not refuse, so that it takes the rest too. One that is dead is entered once more:
-- jobs may have come to name it since its others were looked for.
--
-- KEYS    signs: the terms, by when each has signed last (s), and 0 for one that is dead
-- ARGV    the term; 1 where it cannot be dead: it is its first sign, or the last one was answered
--         just now, so that the set has lost it; after how long one is dead (s); 1 to look for those that
--         are
-- answer  1 where this term is the first, by name, of those that sign, else 0; then other terms that
--         are dead. nil where this one is
-- caller  Shard.Sign, once a second
-- repeat  as often as wanted
local signs, term, limit = KEYS[1], ARGV[1], tonumber(ARGV[3])
redis.call('EXPIRE', signs, 86400)
local clock = redis.call('TIME')
local now = clock[1] + clock[2] / 1000000
local signed = tonumber(redis.call('ZSCORE', signs, term) or ARGV[2] == '1' and -1 or 0)
if signed == 0 then
  redis.call('ZADD', signs, 0, term)
  return false
end
redis.call('ZADD', signs, string.format('%.3f', now), term)
local function leads()
  for from = 0, 1000000, 16 do -- nearly all terms soon find one that is before them
    local some = redis.call('ZREVRANGEBYSCORE', signs, '+inf', string.format('(%.3f', now - limit), 'LIMIT', from, 16)
    for _, id in ipairs(some) do
      if id < term then return 0 end
    end
    if #some < 16 then return 1 end
  end
end
local answer = {leads()}
if ARGV[4] ~= '1' or signed < now - limit then return answer end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', signs, string.format('(%.3f', now + 1), '+inf')) do -- by a clock that was set back
  redis.call('ZADD', signs, string.format('%.3f', now), id)
end
local dead = redis.call('ZRANGEBYSCORE', signs, '-inf', string.format('%.3f', now - limit), 'LIMIT', 0, 16)
for _, id in ipairs(dead) do
  redis.call('ZADD', signs, 0, id)
  answer[#answer + 1] = id
end
return answer
