-- Moves the entry of a claim, whose stamp was too early, to the instant at which this runs.
--
-- KEYS  the sets of admissions that it is in
-- ARGV  the member, its stamp, and the instant at which the claim was executed
--
-- It returns now where the claim is granted by that, in µs, and 0 where it changes nothing:
-- the entry is not the claim's any more, or somebody was admitted since, or the clock was
-- set back. What the claim saw says nothing then.

local member, stamp, executed = ARGV[1], ARGV[2], tonumber(ARGV[3])
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
if now < executed then return 0 end
for _, set in ipairs(KEYS) do
  local own = redis.call('ZSCORE', set, member)
  if not own or tonumber(own) ~= tonumber(stamp) or redis.call('ZCOUNT', set, stamp, '+inf') ~= 1 then return 0 end
end
for _, set in ipairs(KEYS) do redis.call('ZADD', set, string.format('%.0f', now), member) end
return now
