-- Remove deletes tasks of an intake queue that were accepted or became dead letters: pending,
-- scheduled, group -> removed. It skips a task if its message has changed: its ID was enqueued
-- anew. asynq's unique lock stays until it expires.
--
-- KEYS    pending, scheduled, groups
-- ARGV    the prefix of the queue's keys; the longest message to read; then for each task its place,
--         its ID and its message's mark: SHA-1, the number that readMessage returns instead, or ''
-- answer  the number of removed tasks
-- caller  Intake.Remove
-- repeat  as often as wanted
local prefix, longest, removed = ARGV[1], tonumber(ARGV[2]), 0
for i = 3, #ARGV, 3 do
  local place, id, mark = unpack(ARGV, i, i + 2)
  local message = read(prefix .. 't:' .. id, longest)
  local its = type(message) == 'string' and message ~= '' and redis.sha1hex(message) or tostring(message or '')
  if its == mark then
    if place == 'pending' then redis.call('LREM', KEYS[1], -1, id)
    elseif place == 'scheduled' then redis.call('ZREM', KEYS[2], id)
    else
      redis.call('ZREM', prefix .. place, id)
      if redis.call('EXISTS', prefix .. place) == 0 then redis.call('SREM', KEYS[3], string.sub(place, 3)) end
    end
    redis.call('DEL', prefix .. 't:' .. id)
    removed = removed + 1
  end
end
return removed
