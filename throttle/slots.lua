-- The slots of one user's waiting notifications.
--
-- Admissions are binding: the script grants a notification only for the present time, and only if
-- the admissions and its own quiet hours allow it. Slots are advice: they give the time of the
-- next request and the order. A line is the queue of a category's notifications of one zone; its
-- name is "CATEGORY ZONE ". In a line, slots ascend in the order of the first requests.
--
-- KEYS[1]  slots  sorted set of waiting notifications, LINE ID, by slot
-- KEYS[2]  early  sorted set of the members of slots with a job that is due after its slot
-- KEYS[3]  lines  hash while notifications wait. LINE: its length; "left:LINE": when it was last
--                 rescheduled after a leave; "placed:": when any slot was last placed
-- KEYS[4]  sent   sorted set of admissions, by time
-- KEYS[5…] sent:CATEGORY of each line
-- ARGV     acquire, leave, replan, or dry_run (replan without writes); and the rest of the call
--          as JSON, see slots.go
--
-- Returns: now; the number of waiting notifications; an answer for each notification; the jobs to
-- wake (alternating LINE ID and slot); the waiting lines if their slots may change; the delay
-- until the call's line is to be rescheduled; for a dry run LINE ID, old and new slot of each
-- waiting notification. Times and periods are in µs of this server's clock.

local op, ask = ARGV[1], cjson.decode(ARGV[2])
local slotsKey, earlyKey, linesKey = KEYS[1], KEYS[2], KEYS[3]
local dry = op == 'dry_run'
local write = dry and function() return 0 end or redis.call
local max, min = math.max, math.min
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local GRANTED, DEFERRED, REFUSED, REJECTED, SLOTLESS = 1, 2, 3, 4, 5 -- parsed by decision in slots.go
local SECOND = 1000000
local LITTLE = 25000             -- entries this close may swap; a job delayed by less moves no others
local PASSED = now - SECOND      -- an overdue slot before this stays unchanged, and others may pass it
local GONE = now - 3600 * SECOND -- a slot before this is returned: its job may no longer exist
local SOON = now + 2 * SECOND    -- early jobs due before this are returned to be woken,
local AHEAD = 3                  -- and the first few in any case, so that a lost wake-up is repeated
local WAKES = 64                 -- the largest number of early slots, and of slots before GONE, in a reply

local wakes, moves, after = {}, {}, 0 -- parts of the reply
local placed = false                  -- a slot was placed
local changed = false                 -- the other lines may be affected

local function text(instant) return string.format('%.0f', instant) end
local function begins(name, with) return string.sub(name, 1, #with) == with end
local function scoreOf(set, member) return tonumber(redis.call('ZSCORE', set, member) or nil) end
local function fieldOf(name) return tonumber(redis.call('HGET', linesKey, name) or 0) end

-- nth returns the time of the set's entry with that rank, -1 for the newest; nil without an entry.
local function nth(set, rank) return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2]) end

-- entries converts alternating names and numbers to a list of {name=, at=, waits=}. It skips names
-- without the prefix. A number is a time, or the length of a line.
local function entries(found, prefix, waits)
  local list = {}
  for i = 1, #found, 2 do
    if begins(found[i], prefix) then list[#list + 1] = {name = found[i], at = tonumber(found[i + 1]), waits = waits} end
  end
  return list
end

-- slotsIn returns the line's slots from one time and before another.
local function slotsIn(line, from, before)
  return entries(redis.call('ZRANGEBYSCORE', slotsKey, text(from), '(' .. text(before), 'WITHSCORES'), line.name)
end

-- linesOf returns the lines of the line's category, with the length of each.
local function linesOf(line) return entries(redis.call('HGETALL', linesKey), line.category) end

-- all returns the waiting notifications by slot.
local waiting
local function all()
  waiting = waiting or entries(redis.call('ZRANGE', slotsKey, 0, -1, 'WITHSCORES'), '', true)
  return waiting
end

-- upTo returns how many entries of the ordered list are not later than at.
local function upTo(list, at)
  local low, high = 0, #list
  if high == 0 or list[high].at <= at then return high end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if list[middle + 1].at <= at then low = middle + 1 else high = middle end
  end
  return low
end

local function insert(list, entry) table.insert(list, upTo(list, entry.at) + 1, entry) end

-- Search for a slot. A scope has the key of its admissions, the prefix of the names that count in
-- it, a margin, and alternating N and PERIOD of its rules, first the minimum gap.

-- opened returns the earliest time from at on outside the line's quiet hours.
local function opened(line, at)
  local closed = line.closed or {}
  for i = 1, #closed, 2 do
    if closed[i] <= at and at < closed[i + 1] then return closed[i + 1] end
  end
  return at
end

-- allowedAt returns the earliest time from now on at which the admissions, except r's own, allow
-- the notification r. If r.books is set, that time is after now, as the caller cannot send r yet.
local function allowedAt(line, r)
  local at = r.books and now + 1 or now
  for _, scope in ipairs(line.scopes) do
    local set = KEYS[scope.key]
    local own = scoreOf(set, r.member)
    for k = 1, #scope.rules, 2 do
      local n, period = scope.rules[k], scope.rules[k + 1]
      local sent = nth(set, -n)
      if sent and own and own >= sent then sent = nth(set, -n - 1) end
      if sent and period > 0 then at = max(at, sent + period) end
    end
  end
  return at
end

-- views returns the entries that count in each scope of the line, except the notification's own.
local function views(line, r)
  local lists = {}
  for i, scope in ipairs(line.scopes) do
    local list = {scope = scope}
    for _, entry in ipairs(entries(redis.call('ZRANGE', KEYS[scope.key], -scope.most - 1, -1, 'WITHSCORES'), '')) do
      if entry.name ~= r.member then list[#list + 1] = entry end
    end
    list.sent = #list
    for _, entry in ipairs(all()) do
      if begins(entry.name, scope.of) and entry.name ~= r.name then insert(list, entry) end
    end
    lists[i] = list
  end
  return lists
end

-- clash returns the earliest time from at on that the list's rules allow: n entries and the new
-- one must span the period. It checks each n consecutive entries around at, the latest first, and
-- stops at the first n that begin too early to matter. A window that begins or ends at a slot
-- must span the margin too, so that a slightly late job does not delay others.
local function clash(list, at)
  local free, before, scope = at, upTo(list, at), list.scope
  for k = 1, #scope.rules, 2 do
    local n, period = scope.rules[k], scope.rules[k + 1]
    for i = min(before, #list - n) + 1, max(before - n, 0) + 1, -1 do
      local first, last = list[i], list[i + n - 1]
      local edge = last.at > at and last or first
      local span = period + (edge.waits and scope.margin or 0)
      if period == 0 or first.at + span <= at then break end
      if max(last.at, at) - min(first.at, at) < span then
        free = max(free, first.at + span)
        break
      end
    end
  end
  return free
end

-- place returns the earliest time from at on that fits among the views and is not in quiet hours.
local function place(line, among, at)
  repeat
    local from = at
    at = opened(line, at)
    for _, list in ipairs(among) do at = clash(list, at) end
  until at == from
  return at
end

-- binding returns the scope and the rule that set the time at. All admissions count, because a
-- claim's score may be slightly after now.
local function binding(among, at)
  local latest, scope, rule = 0, 0, 0
  for i, list in ipairs(among) do
    local before, rules = max(upTo(list, at), list.sent), list.scope.rules
    for k = 1, #rules, 2 do
      local first = list[before - rules[k] + 1]
      local free = first and rules[k + 1] > 0 and first.at + rules[k + 1] or -1
      if free >= latest then latest, scope, rule = free, i, (k + 1) / 2 end
    end
  end
  return scope, rule
end

-- Writes.

-- count adds n to the length of the line.
local function count(name, n)
  local waits = fieldOf(name) + n
  if waits > 0 then write('HSET', linesKey, name, waits) else write('HDEL', linesKey, name, 'left:' .. name) end
end

-- enter adds a slot for a notification without one.
local function enter(line, r, slot)
  write('ZADD', slotsKey, text(slot), r.name)
  count(line.name, 1)
  if waiting then insert(waiting, {name = r.name, at = slot, waits = true}) end
  placed = true
end

-- drop removes an entry of that line and returns its slot, or nil.
local function drop(name, id)
  local slot = scoreOf(slotsKey, name .. id)
  if not slot then return nil end
  write('ZREM', slotsKey, name .. id)
  write('ZREM', earlyKey, name .. id)
  count(name, -1)
  waiting = nil
  return slot
end

-- admitted returns the time of the notification's admission; 0 for none.
local function admitted(line, r)
  local at = 0
  for _, scope in ipairs(line.scopes) do at = max(at, scoreOf(KEYS[scope.key], r.member) or 0) end
  return at
end

-- giveBack removes the notification's admission.
local function giveBack(line, r)
  for _, scope in ipairs(line.scopes) do write('ZREM', KEYS[scope.key], r.member) end
end

-- reschedule moves the line's entries from slot on, in their order, each to the earliest time
-- that fits among all others and is at least floor. It marks an entry as early if its new slot is
-- before its old one. The admission of r does not count.
local function reschedule(line, slot, floor, r)
  local those, others, at = {}, {}, floor - 1
  for _, entry in ipairs(all()) do
    local mine = begins(entry.name, line.name)
    if mine and entry.at >= slot then those[#those + 1] = entry else others[#others + 1] = entry end
    if mine and entry.at < slot then at = max(at, entry.at) end
  end
  waiting = others
  local among, moved, sooner = views(line, r or {}), {}, {}
  for _, entry in ipairs(those) do
    at = place(line, among, at + 1)
    if dry then moves[#moves + 1] = {entry.name, entry.at, at} end
    if at ~= entry.at then moved[#moved + 1], moved[#moved + 2] = text(at), entry.name end
    if at < entry.at then sooner[#sooner + 1], sooner[#sooner + 2] = text(at), entry.name end
    entry.at = at
    for _, list in ipairs(among) do insert(list, entry) end
    insert(waiting, entry)
  end
  if not moved[1] then return end
  write('ZADD', slotsKey, unpack(moved))
  write('ZADD', earlyKey, 'XX', unpack(moved))
  if sooner[1] then write('ZADD', earlyKey, unpack(sooner)) end
  placed = true
end

-- moveUp is reschedule after a leave, at most once a second.
local function moveUp(line, slot)
  if fieldOf(line.name) == 0 then return end
  local since = now - fieldOf('left:' .. line.name)
  if since >= 0 and since < SECOND then
    after = max(after, SECOND - since)
  else
    write('HSET', linesKey, 'left:' .. line.name, text(now))
    reschedule(line, max(slot, PASSED), now)
  end
end

-- Replies.

-- answer returns the status and its time, the scope and the rule that set the time, the slot held
-- before, and with a report the admissions in the window of each rate.
local function answer(line, r, status, at, among)
  local scope, rule = 0, 0
  if at > now and status ~= GRANTED then scope, rule = binding(among or views(line, r), at) end
  local a = {status, at, scope, rule, r.held or 0}
  for _, s in ipairs(ask.report and line.scopes or {}) do
    for k = 3, #s.rules, 2 do
      a[#a + 1] = redis.call('ZCOUNT', KEYS[s.key], '(' .. text(now - s.rules[k + 1]), '+inf')
    end
  end
  return a
end

-- grant adds the admission: never before an earlier admission of the same notification, and later
-- than its denied claim, so that the removal of the claim does not remove the admission.
local function grant(line, r)
  local at = max(now, admitted(line, r) + 1)
  for _, scope in ipairs(line.scopes) do
    write('ZADD', KEYS[scope.key], text(at), r.member)
    write('ZREMRANGEBYSCORE', KEYS[scope.key], '-inf', text(now - ask.keep))
    write('PEXPIRE', KEYS[scope.key], text(ask.life / 1000))
  end
  drop(line.name, r.id)
  return answer(line, r, GRANTED, at)
end

-- full reports whether the category has its limit of slots, or the user twice that.
local function full(line)
  local user, category = redis.call('ZCARD', slotsKey), 0
  if user < ask.most then return false end
  for _, other in ipairs(linesOf(line)) do category = category + other.at end
  return category >= ask.most or user >= 2 * ask.most
end

-- slotOf returns the earliest slot of the notification, in any zone, and of its elder, which it
-- replaces. The notification takes this slot over in its line.
local function slotOf(line, r)
  local own = scoreOf(slotsKey, r.name)
  if own and not r.elder then return own end
  local slot = own or math.huge
  for _, other in ipairs(linesOf(line)) do
    if other.name ~= line.name then slot = min(slot, drop(other.name, r.id) or slot) end
    if r.elder then slot = min(slot, drop(other.name, r.elder) or slot) end
  end
  if slot == (own or math.huge) then return own end
  drop(line.name, r.id)
  enter(line, r, slot)
  return slot
end

-- decideHeld answers the request of a notification with a slot. At its slot it is granted if
-- allowedAt is now and no earlier slot of its line is due. Otherwise it gets a later slot: alone,
-- if that is less than LITTLE later and no other slot lies between the old and the new one; else
-- with all entries behind it, and if an earlier entry is due, only after the second in which that
-- must not be passed.
local function decideHeld(line, r, slot)
  if slot <= now then
    local free = opened(line, allowedAt(line, r))
    local rivals = slotsIn(line, PASSED, slot - LITTLE)
    local rival = rivals[#rivals]
    if free <= now and not rival then return grant(line, r) end
    if not rival and free - slot < LITTLE and not slotsIn(line, slot + 1, free + 1)[1] then
      drop(line.name, r.id)
      enter(line, r, free)
    else
      reschedule(line, slot, max(free, rival and rival.at + SECOND + 1 or 0), r)
    end
    slot = scoreOf(slotsKey, r.name)
  end
  write('ZREM', earlyKey, r.name) -- the reply has the new slot
  if slot <= now + r.horizon then return answer(line, r, DEFERRED, slot) end
  drop(line.name, r.id)
  return answer(line, r, REFUSED, slot)
end

-- decideNew answers the request of a notification without a slot.
local function decideNew(line, r)
  local lineFull = full(line)
  if lineFull and not r.kept and fieldOf(line.name) > 0 then return answer(line, r, REJECTED, now) end
  local free = opened(line, allowedAt(line, r))
  if free <= now and redis.call('ZCARD', slotsKey) == 0 then return grant(line, r) end
  local last = 0
  for _, entry in ipairs(all()) do
    if begins(entry.name, line.name) then last = entry.at end
  end
  local among = views(line, r)
  local at = place(line, among, max(free, last + 1))
  if at <= now then return grant(line, r) end
  if at > now + r.horizon then return answer(line, r, REFUSED, at, among) end
  if lineFull and not r.kept then return answer(line, r, REJECTED, now) end
  if lineFull then return answer(line, r, SLOTLESS, max(last, now + SECOND), among) end
  enter(line, r, at)
  return answer(line, r, DEFERRED, at, among)
end

-- acquire answers the request of a notification. If the notification passes the current quiet
-- hours or was granted before, only allowedAt delays it, not slots. If it was granted before, the
-- reply was lost, or it was not sent in time.
local function acquire(line, r)
  local own = admitted(line, r)
  if own > 0 and own == ask.claim then -- a denied claim: slots placed since count it as an admission
    giveBack(line, r)
    own = 0
    if fieldOf('placed:') >= ask.entered then
      reschedule(line, PASSED, now)
      changed = true
    end
  end
  r.name = line.name .. r.id
  r.held = slotOf(line, r)
  local slot, open = r.held, opened(line, now)
  local passes, back = open > now and r.passes, own > 0 and not slot
  if passes or back and open == now then
    local free = allowedAt(line, r)
    if free <= now then return grant(line, r) end
    if free < open and not slot then
      return answer(line, r, free > now + r.horizon and REFUSED or SLOTLESS, free)
    end
  end
  if back then -- it was granted before: it is first in its line
    local first = slotsIn(line, 0, now + 1)[1]
    slot = first and first.at - 1 or now
    enter(line, r, slot)
  end
  if slot then return decideHeld(line, r, slot) end
  return decideNew(line, r)
end

-- leave removes ended or retried notifications and moves up the entries behind them. Without used
-- it also removes their admissions.
local function leave(line)
  local first, lines = math.huge, linesOf(line)
  for _, r in ipairs(ask.all) do
    for _, other in ipairs(lines) do first = min(first, drop(other.name, r.id) or first) end
    if not r.used and admitted(line, r) > 0 then
      giveBack(line, r)
      first = 0
    end
  end
  if first == math.huge then return end
  changed = true
  moveUp(line, first)
end

-- replan reschedules the line, after a change of limits or after a notification has left it. From
-- a line without limits all notifications leave, and are returned with the time now.
local function replan(line)
  if ask.leaver and not line.free then return moveUp(line, PASSED) end
  if not line.free then return reschedule(line, PASSED, now) end
  local others = {}
  for _, entry in ipairs(all()) do
    if begins(entry.name, line.name) then
      drop(line.name, string.sub(entry.name, #line.name + 1))
      if not dry then wakes[#wakes + 1], wakes[#wakes + 2] = entry.name, text(now) end
      if dry then moves[#moves + 1] = {entry.name, entry.at, 0} end
    else
      others[#others + 1] = entry
    end
  end
  waiting = others
end

-- wake collects the first early jobs, and jobs that may no longer exist.
local function wake()
  local gone = redis.call('ZRANGEBYSCORE', slotsKey, '-inf', text(GONE), 'WITHSCORES', 'LIMIT', 0, WAKES)
  local early = redis.call('ZRANGE', earlyKey, 0, WAKES - 1, 'WITHSCORES')
  for _, found in ipairs({gone, early}) do
    for i, entry in ipairs(entries(found, '')) do
      if i > AHEAD and entry.at > SOON then break end
      wakes[#wakes + 1], wakes[#wakes + 2] = entry.name, text(entry.at)
    end
  end
end

local answers = {}
if op == 'acquire' then
  for i, r in ipairs(ask.all) do answers[i] = acquire(ask.lines[1], r) end
elseif op == 'leave' then
  leave(ask.lines[1])
else
  for _, line in ipairs(ask.lines) do replan(line) end
  changed = true
end

local held = redis.call('ZCARD', slotsKey)
if held == 0 then
  write('DEL', linesKey)
elseif placed then -- the keys expire only after the last slot no longer counts
  write('HSET', linesKey, 'placed:', text(now))
  local life = ask.life + max(0, nth(slotsKey, -1) - now)
  for _, key in ipairs({slotsKey, earlyKey, linesKey}) do write('PEXPIRE', key, text(life / 1000)) end
end
if held > 0 and not dry then wake() end
return {now, held, answers, wakes, changed and held > 0 and redis.call('HKEYS', linesKey) or {}, after, moves}
