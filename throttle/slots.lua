-- The slots of one user's notifications: who waits, and until when.
--
-- Admissions are law: a notification is granted at this very instant, and only if those that were
-- sent and its own quiet hours allow it. Slots are advice: they say when to ask again, and who
-- comes first. A line is a category's notifications of one zone; its name is "CATEGORY ZONE ".
-- Within a line slots ascend in the order in which its notifications have asked.
--
-- KEYS[1]  slots  who waits, as LINE ID, by its slot: sorted set
-- KEYS[2]  early  those of them whose slot is earlier than their job was told: sorted set
-- KEYS[3]  lines  hash, while somebody waits. LINE: how many wait of it; "left:LINE": when it was
--                 placed again for a leaver; "placed:": when any slot was placed last
-- KEYS[4]  sent   admissions, by their instant: sorted set
-- KEYS[5…] sent:CATEGORY of each line
-- ARGV     acquire, leave, replan, or dry_run, which is replan and writes nothing; and the rest
--          of the call as JSON, see slots.go
--
-- It returns now, how many wait, an answer for each notification, who is to be woken (LINE ID
-- and slot in turns), the lines that wait if anything changes for them, after how long the call's
-- line is to be placed again, and of a dry run LINE ID, old and new slot of each. Instants and
-- periods are in µs of this server's clock.

local op, ask = ARGV[1], cjson.decode(ARGV[2])
local slotsKey, earlyKey, linesKey = KEYS[1], KEYS[2], KEYS[3]
local dry = op == 'dry_run'
local write = dry and function() return 0 end or redis.call
local max, min = math.max, math.min
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local GRANTED, DEFERRED, REFUSED, REJECTED, SLOTLESS = 1, 2, 3, 4, 5 -- as decision in slots.go reads them
local SECOND = 1000000
local LITTLE = 25000             -- one that is earlier by less may be passed; one short by less moves nobody
local PASSED = now - SECOND      -- others may pass whoever has an earlier slot, which stays where it is
local GONE = now - 3600 * SECOND -- the job of an earlier slot may be no more: it is named to be looked at
local SOON = now + 2 * SECOND    -- who is early and due before is woken,
local AHEAD = 3                  -- and so many however far away: if a wake is lost, others name it again
local WAKES = 64                 -- so many at most

local names, moves, after = {}, {}, 0 -- of what is returned
local placed = false                  -- whether any slot was placed
local changed = false                 -- whether anything changed for the other lines

local function text(instant) return string.format('%.0f', instant) end
local function begins(name, with) return string.sub(name, 1, #with) == with end
local function scoreOf(set, member) return tonumber(redis.call('ZSCORE', set, member) or nil) end
local function fieldOf(name) return tonumber(redis.call('HGET', linesKey, name) or 0) end

-- nth returns the instant of the set's entry with that rank, from -1 for the newest, or nil.
local function nth(set, rank) return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2]) end

-- entries reads names and numbers in turns as a list of {name=, at=}, of names that begin so. The
-- number is an instant, or how many wait of a line.
local function entries(found, with, waits)
  local list = {}
  for i = 1, #found, 2 do
    if begins(found[i], with) then list[#list + 1] = {name = found[i], at = tonumber(found[i + 1]), waits = waits} end
  end
  return list
end

-- slotsIn are the line's slots from an instant on and before another.
local function slotsIn(line, from, before)
  return entries(redis.call('ZRANGEBYSCORE', slotsKey, text(from), '(' .. text(before), 'WITHSCORES'), line.name)
end

-- linesOf are the lines of its category, with how many wait of each.
local function linesOf(line) return entries(redis.call('HGETALL', linesKey), line.category) end

-- all are those who wait, by their slots.
local waiting
local function all()
  waiting = waiting or entries(redis.call('ZRANGE', slotsKey, 0, -1, 'WITHSCORES'), '', true)
  return waiting
end

-- upTo returns how many of the list, which is in order, are not later than that instant.
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

-- Where there is a place. Of a scope there are the key of what was sent, what the names of those
-- who count begin with, a margin, and the rules as N and PERIOD in turns, the minimum gap first.

-- opened returns the first instant from that one on that is not in the line's quiet hours.
local function opened(line, at)
  local closed = line.closed or {}
  for i = 1, #closed, 2 do
    if closed[i] <= at and at < closed[i + 1] then return closed[i + 1] end
  end
  return at
end

-- law returns the first instant from now on at which the admissions, but for its own, allow the
-- notification to go. One that cannot be sent yet may not go now.
local function law(line, r)
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

-- views returns for each scope of the line a list of what counts, but for the notification itself.
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

-- clash returns the first instant from that one on that the windows around it allow: n entries
-- and one more span the period. It looks at each n entries that follow each other around the
-- instant, the latest first: the first n that end too early for it end the search. A window that
-- begins or ends at a slot spans a margin more, so that a job that comes a hair late delays nobody.
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

-- place returns the first instant from that one on that fits among the views and is open.
local function place(line, among, at)
  repeat
    local from = at
    at = opened(line, at)
    for _, list in ipairs(among) do at = clash(list, at) end
  until at == from
  return at
end

-- binding returns which scope and rule let that instant be no earlier. All that were sent count:
-- a claim may stand a little ahead.
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

-- What is written.

-- count adds to how many wait of the line.
local function count(name, n)
  local waits = fieldOf(name) + n
  if waits > 0 then write('HSET', linesKey, name, waits) else write('HDEL', linesKey, name, 'left:' .. name) end
end

-- enter gives the notification a slot, where it holds none.
local function enter(line, r, slot)
  write('ZADD', slotsKey, text(slot), r.name)
  count(line.name, 1)
  if waiting then insert(waiting, {name = r.name, at = slot, waits = true}) end
  placed = true
end

-- drop takes an entry of that line out, and returns its slot, or nil.
local function drop(name, id)
  local slot = scoreOf(slotsKey, name .. id)
  if not slot then return nil end
  write('ZREM', slotsKey, name .. id)
  write('ZREM', earlyKey, name .. id)
  count(name, -1)
  waiting = nil
  return slot
end

-- admitted returns when the notification was let through last, 0 for never.
local function admitted(line, r)
  local at = 0
  for _, scope in ipairs(line.scopes) do at = max(at, scoreOf(KEYS[scope.key], r.member) or 0) end
  return at
end

-- giveBack takes the notification's admission out.
local function giveBack(line, r)
  for _, scope in ipairs(line.scopes) do write('ZREM', KEYS[scope.key], r.member) end
end

-- again places those of the line who have that slot or a later one, in their order, each at the
-- first instant that fits among all others, none before the floor. Who gets an earlier slot is
-- early. The notification's own admission does not count.
local function again(line, slot, floor, r)
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

-- moveUp is again for a leaver, at most once a second.
local function moveUp(line, slot)
  if fieldOf(line.name) == 0 then return end
  local since = now - fieldOf('left:' .. line.name)
  if since >= 0 and since < SECOND then
    after = max(after, SECOND - since)
  else
    write('HSET', linesKey, 'left:' .. line.name, text(now))
    again(line, max(slot, PASSED), now)
  end
end

-- What is answered.

-- answer is the status and its instant, the scope and the rule that set it, the slot that was held
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

-- grant enters the notification among those sent: never before an admission of its own, and out
-- of reach of a denied claim of its own that is to be taken out.
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

-- full reports whether as many of the category hold slots as may, or twice as many of the user.
local function full(line)
  local user, category = redis.call('ZCARD', slotsKey), 0
  if user < ask.most then return false end
  for _, other in ipairs(linesOf(line)) do category = category + other.at end
  return category >= ask.most or user >= 2 * ask.most
end

-- slotOf returns the slot that the notification holds, or takes over: its own in another zone, or
-- its elder's. Of several it is the earliest.
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

-- come decides of one that holds a slot. At its slot it is granted if the law allows it and no
-- earlier one of its line is due. Else it gets another slot: alone, if it is short by little and
-- nobody is in between, or with all behind it; behind a rival that is due, when others may pass that.
local function come(line, r, slot)
  if slot <= now then
    local free = opened(line, law(line, r))
    local rivals = slotsIn(line, PASSED, slot - LITTLE)
    local rival = rivals[#rivals]
    if free <= now and not rival then return grant(line, r) end
    if not rival and free - slot < LITTLE and not slotsIn(line, slot + 1, free + 1)[1] then
      drop(line.name, r.id)
      enter(line, r, free)
    else
      again(line, slot, max(free, rival and rival.at + SECOND + 1 or 0), r)
    end
    slot = scoreOf(slotsKey, r.name)
  end
  write('ZREM', earlyKey, r.name) -- it is told now
  if slot <= now + r.horizon then return answer(line, r, DEFERRED, slot) end
  drop(line.name, r.id)
  return answer(line, r, REFUSED, slot)
end

-- arrive decides of one that holds none.
local function arrive(line, r)
  local crowded = full(line)
  if crowded and not r.kept and fieldOf(line.name) > 0 then return answer(line, r, REJECTED, now) end
  local free = opened(line, law(line, r))
  if free <= now and redis.call('ZCARD', slotsKey) == 0 then return grant(line, r) end
  local last = 0
  for _, entry in ipairs(all()) do
    if begins(entry.name, line.name) then last = entry.at end
  end
  local among = views(line, r)
  local at = place(line, among, max(free, last + 1))
  if at <= now then return grant(line, r) end
  if at > now + r.horizon then return answer(line, r, REFUSED, at, among) end
  if crowded and not r.kept then return answer(line, r, REJECTED, now) end
  if crowded then return answer(line, r, SLOTLESS, max(last, now + SECOND), among) end
  enter(line, r, at)
  return answer(line, r, DEFERRED, at, among)
end

-- acquire decides of one notification. What passes quiet hours, and what was let through before
-- and comes back, as its answer was lost or it did not leave in time, needs the law alone.
local function acquire(line, r)
  local own = admitted(line, r)
  if own > 0 and own == ask.claim then -- it was denied: who was placed since has respected it
    giveBack(line, r)
    own = 0
    if fieldOf('placed:') >= ask.entered then
      again(line, PASSED, now)
      changed = true
    end
  end
  r.name = line.name .. r.id
  r.held = slotOf(line, r)
  local slot, open = r.held, opened(line, now)
  local passes, back = open > now and r.passes, own > 0 and not slot
  if passes or back and open == now then
    local free = law(line, r)
    if free <= now then return grant(line, r) end
    if free < open and not slot then
      return answer(line, r, free > now + r.horizon and REFUSED or SLOTLESS, free)
    end
  end
  if back then -- it has had its turn: it is the first of its line
    local first = slotsIn(line, 0, now + 1)[1]
    slot = first and first.at - 1 or now
    enter(line, r, slot)
  end
  if slot then return come(line, r, slot) end
  return arrive(line, r)
end

-- leave removes notifications that have ended, or go back, and moves up those behind. One that
-- was not used gives its admission back too.
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

-- replan places the line again, as limits have changed or its caller was told to. Those whom
-- nothing limits any more wait no longer, and are named at now.
local function replan(line)
  if ask.leaver and not line.free then return moveUp(line, PASSED) end
  if not line.free then return again(line, PASSED, now) end
  local others = {}
  for _, entry in ipairs(all()) do
    if begins(entry.name, line.name) then
      drop(line.name, string.sub(entry.name, #line.name + 1))
      if not dry then names[#names + 1], names[#names + 2] = entry.name, text(now) end
      if dry then moves[#moves + 1] = {entry.name, entry.at, 0} end
    else
      others[#others + 1] = entry
    end
  end
  waiting = others
end

-- wake names the first ones that are early, and those whose job may be no more.
local function wake()
  local gone = redis.call('ZRANGEBYSCORE', slotsKey, '-inf', text(GONE), 'WITHSCORES', 'LIMIT', 0, WAKES)
  local early = redis.call('ZRANGE', earlyKey, 0, WAKES - 1, 'WITHSCORES')
  for _, found in ipairs({gone, early}) do
    for i, entry in ipairs(entries(found, '')) do
      if i > AHEAD and entry.at > SOON then break end
      names[#names + 1], names[#names + 2] = entry.name, text(entry.at)
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
elseif placed then -- what waits is kept for as long as the last slot counts
  write('HSET', linesKey, 'placed:', text(now))
  local life = ask.life + max(0, nth(slotsKey, -1) - now)
  for _, key in ipairs({slotsKey, earlyKey, linesKey}) do write('PEXPIRE', key, text(life / 1000)) end
end
if held > 0 and not dry then wake() end
return {now, held, answers, names, changed and held > 0 and redis.call('HKEYS', linesKey) or {}, after, moves}
