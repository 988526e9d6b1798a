-- Peek reads tasks of intake queues, the oldest first: pending ones, scheduled ones that are due,
-- and tasks of groups. It moves nothing, and skips a paused queue.
--
-- KEYS    for each queue pending, scheduled, groups, paused
-- ARGV    the most tasks of each place; the longest message to read; then for each queue the prefix of
--         its keys, and how many pending and scheduled tasks to skip
-- answer  the error of a key of the wrong type, '' for none; then for each task the number of its
--         queue, its place, its ID and its message as readMessage returns it, '' for none
-- caller  Intake.Peek
-- repeat  as often as wanted
local most, longest, answer, bytes = tonumber(ARGV[1]), tonumber(ARGV[2]), {''}, 0
if redis.call('EXISTS', unpack(KEYS)) == 0 then return answer end
local now = redis.call('TIME')[1]

local function list(...) -- after a key of the wrong type, the next keys are read
  local found = redis.pcall(...)
  if not found.err then return found end
  answer[1] = found.err
  return {}
end
for q = 1, #KEYS / 4 do
  local pending, scheduled, groups, paused = unpack(KEYS, 4 * q - 3, 4 * q)
  local prefix, skipped, later = unpack(ARGV, 3 * q, 3 * q + 2)
  local function add(place, id)
    if bytes > 4194304 then return end -- another call reads the rest
    local message = read(prefix .. 't:' .. id, longest) or ''
    for _, value in ipairs({q, place, id, message}) do answer[#answer + 1] = value end
    bytes = bytes + (type(message) == 'string' and #message or 0)
  end
  if redis.call('EXISTS', paused) == 0 then
    local ids = list('LRANGE', pending, -skipped - most, -skipped - 1)
    for i = #ids, 1, -1 do add('pending', ids[i]) end
    for _, id in ipairs(list('ZRANGEBYSCORE', scheduled, '-inf', now, 'LIMIT', later, most)) do add('scheduled', id) end
    local left = most
    for _, group in ipairs(list('SRANDMEMBER', groups, most)) do
      if left < 1 then break end
      ids = list('ZRANGE', prefix .. 'g:' .. group, 0, left - 1)
      for _, id in ipairs(ids) do add('g:' .. group, id) end
      left = left - #ids
    end
  end
end
return answer
