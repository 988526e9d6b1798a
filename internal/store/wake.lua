-- Wake makes delayed jobs of a queue due earlier: retry -> pending, or a new instant in due. It
-- writes each instant to the record of its notification, as until.
--
-- KEYS    retry, pending, due, idle
-- ARGV    prefix of the tasks' keys, and of the records'; of each job its ID and when it is to be
--         due (us), 0 for now
-- answer  the IDs of those jobs that a worker has in hand
-- caller  Shard.WakeAll, for whoever a limiter's answer names, and for operators
-- repeat  as often as wanted: no job becomes due later
local queue, held = {retry = KEYS[1], pending = KEYS[2], due = KEYS[3], idle = KEYS[4], tasks = ARGV[1]}, {}
for i = 3, #ARGV, 2 do
  local id, at = ARGV[i], tonumber(ARGV[i + 1])
  local became = wakeJob(queue, id, at > 0 and at or nil)
  if became == 'in hand' then held[#held + 1] = id end
  if became == 'due' and at > 0 and redis.pcall('HEXISTS', ARGV[2] .. id, 'until') == 1 then
    redis.call('HSET', ARGV[2] .. id, 'until', math.floor(at / 1000))
  end
end
return held
