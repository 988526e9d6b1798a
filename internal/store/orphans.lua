-- Orphans lists the active jobs in the claim of a dead or unknown term.
--
-- KEYS    active, signs
-- ARGV    prefix of the tasks' keys; how many of the oldest to skip; how many to read; the longest
--         message to read
-- answer  the length of active; then for each job its ID, its claim and its accepted_at, as a text; ''
--         for unknown
-- caller  Shard.Reap
-- repeat  as often as wanted: it only reads
local active, signs, tasks, from, n, longest = KEYS[1], KEYS[2], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local answer, alive = {redis.call('LLEN', active)}, {}
for _, id in ipairs(redis.call('LRANGE', active, -from - n, -from - 1)) do
  local task = tasks .. id
  local claim = redis.pcall('HGET', task, 'worker')
  if type(claim) == 'table' then -- read fails if the key is on its way to another master
    read(task, 0)
    claim = ''
  end
  local term = string.match(claim or '', '^[^/]*')
  if alive[term] == nil then alive[term] = tonumber(redis.call('ZSCORE', signs, term) or 0) > 0 end
  if not alive[term] then
    local message = read(task, longest)
    local accepted = type(message) == 'string' and string.match(string.sub(message, 1, 512), '"accepted_at":"([^"]*)Z"')
    for _, value in ipairs({id, claim or '', accepted or ''}) do answer[#answer + 1] = value end
  end
end
return answer
