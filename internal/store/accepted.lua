-- accepted counts a notification as accepted if it has no record yet, because another client
-- has enqueued it.
local function accepted(record, counts, now)
  if redis.call('HEXISTS', record, 'state') == 1 then return end
  redis.call('HINCRBY', counts, 'accepted', 1)
  redis.call('HSETNX', record, 'accepted', string.format('%.0f', now))
  redis.call('HSET', record, 'state', 'waiting')
end
