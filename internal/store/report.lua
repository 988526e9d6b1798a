-- report adds a report to its app's stream, and returns XADD's reply. The stream keeps the newest
-- reports: report deletes the oldest ones beyond the bound, about 100 at a time and at most 200 in
-- one call, as one script may call it often. A report counts as dropped if the app's webhook has
-- not acknowledged it.
local function report(streams, kept, counts, what, app, fields)
  local stream = streams .. ':' .. app
  local added = redis.pcall('XADD', stream, '*', unpack(fields))
  if type(added) == 'table' and added.err then return added end
  local over = redis.call('XLEN', stream) - kept
  if over < 100 then return added end
  local oldest = redis.call('XRANGE', stream, '-', '+', 'COUNT', math.min(over, 200) + 1)
  local group, taken = 'webhook:' .. app, nil
  for _, pairs in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
    local info = {}
    for i = 1, #pairs, 2 do info[pairs[i]] = pairs[i + 1] end
    if info.name == group then taken = info['last-delivered-id'] end
  end
  if taken then
    local ms, seq = string.match(taken, '(%d+)-(%d+)')
    ms, seq = tonumber(ms), tonumber(seq)
    local lost = #redis.call('XPENDING', stream, group, oldest[1][1], oldest[#oldest - 1][1], 1000)
    for i = 1, #oldest - 1 do
      local its, number = string.match(oldest[i][1], '(%d+)-(%d+)')
      its = tonumber(its)
      if its > ms or its == ms and tonumber(number) > seq then lost = lost + 1 end
    end
    if lost > 0 then redis.pcall('HINCRBY', counts, 'dropped:' .. what .. ':' .. app, lost) end
  end
  redis.call('XTRIM', stream, 'MINID', oldest[#oldest][1])
  return added
end
