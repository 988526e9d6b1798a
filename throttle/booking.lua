-- The waiting of one user's notifications: everything that has to branch. The
-- grant of a first visit does not come here; claim.go has it.
--
-- Admissions are law, bookings are advice. What goes now is checked against those
-- sent alone, so that no limit ever rests on what waits. A booking says who is next
-- and when to come; were all of them lost, only order and punctuality would suffer.
--
-- Who waits is told by three sorted sets:
--   booked      the slots under the general limits
--   booked:CAT  the slots of a category, with the same names and instants
--   queue:CAT   who waits of the category, by the instant of acceptance
-- A slot is nobody's by name: the k-th of a category's queue holds its k-th slot.
-- All of a category have the same limits, so that any of its slots fits any of
-- them. Whoever was accepted earlier goes in ahead and nothing has to be moved, and
-- however slots are given, taken and moved, the order of acceptance holds.
--
-- The hash limits has the limits by which those who wait were given their slots
-- ("g" the general ones, "c"CAT a category's), the number of the last slot ("#")
-- and when the limits changed last ("@").
--
-- KEYS  sent, booked, limits, beyond; of the category: sent, booked, queue
-- ARGV  op, member, ID, claim, 1 when nobody waited at the claim, wait, horizon, keep, life,
--       how many may wait or 0, 1 for one that comes back, accepted or 0, where a
--       replan begins, the general limits, the category's, the category
-- Instants and periods are in µs of this server's clock. Limits are written
-- KIND MARGIN {N PERIOD}…, kind 2 is exempt; "" where the scope is none of the request's.

local op, member, id = ARGV[1], ARGV[2], ARGV[3]
local claim, alone = tonumber(ARGV[4]), ARGV[5] == '1'
local wait, horizon = tonumber(ARGV[6]), tonumber(ARGV[7])
local keep, life = tonumber(ARGV[8]), tonumber(ARGV[9])
local most, back = tonumber(ARGV[10]), ARGV[11] == '1'
local accepted, cursor = tonumber(ARGV[12]), ARGV[13]
local limits, beyond = KEYS[3], KEYS[4]

-- What one call may do, as Redis serves nobody else meanwhile: the slots that it gives
-- again, those that a cancel does, those that it ends, the steps until it leaves
-- the rest to the next call, those of one search, and how many slots before those that
-- it gives again it looks for places. A step takes about a microsecond.
local page, reach, ends, budget, patience, window = 1000, 250, 2000, 8000, 5000, 500
-- By how much later than it needs a slot may be and stay: nobody is woken for it.
local slack = 20000
-- How long workers may disagree about limits: for as long nobody is moved again.
local flapping = 1000000

local max, min = math.max, math.min
local function text(instant) return string.format('%.0f', instant) end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- Who comes forward has to be woken, which takes this long: one with an earlier
-- slot would be late for it, and whoever is awake would take it.
local lead = (op == 'cancel' or op == 'leave') and 0 or min(wait, 1000000)

local function parse(words)
  local p, n = {rules = {}, free = true, margin = 0}, nil
  for word in string.gmatch(words, '%d+') do
    if p.exempt == nil then p.exempt = word == '2'
    elseif p.margin == 0 then p.margin = tonumber(word)
    elseif not n then n = tonumber(word)
    else
      p.rules[#p.rules + 1] = {n = n, period = tonumber(word)}
      if tonumber(word) > 0 then p.free = false end
      n = nil
    end
  end
  return p
end

local function scope(words, sent, booked)
  local s = parse(words)
  s.sent, s.booked = sent, booked
  return s
end
local function class(name, words)
  local base = string.sub(KEYS[1], 1, -5)
  local c = scope(words, base .. 'sent:' .. name, base .. 'booked:' .. name)
  c.name, c.queue = name, base .. 'queue:' .. name
  return c
end

-- The general limits and the category's; of the request's scopes, the category's
-- first: it is the one that lets a search jump far.
local all, own = scope(ARGV[14], KEYS[1], KEYS[2]), class(ARGV[16], ARGV[15])
local general, special = ARGV[14] ~= '', ARGV[15] ~= ''
local scopes = {}
if special then scopes[1] = own end
if general then scopes[#scopes + 1] = all end

local function count(set, from, upto) return redis.call('ZCOUNT', set, from, upto) end
local function any(set) return redis.call('EXISTS', set) == 1 end

-- at returns the score of the set's entry with that rank from the oldest, or nil.
local function at(set, rank)
  return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2])
end

-- A view is a scope's entries in order, each read once, when it is asked for.
-- Entry 1 is the first after the instant that the view begins at, entry 0 the last up
-- to it. Those who wait are in it but for those from "hidden" on, and not at
-- all in one of the law alone. Of entries at one instant those who wait come first.
local work = 0
local function view(s, from, law, hidden)
  local v = {scope = s, sets = {s.sent, not law and s.booked or nil}, from = from,
    past = {}, seen = {}, page = {}, score = {}, waits = {}, before = 0, read = 0, passed = 0}
  for i, set in ipairs(v.sets) do
    local stop = i == 2 and hidden
    v.past[i] = count(set, '-inf', stop and stop <= from and '(' .. text(stop) or text(from))
    v.seen[i] = stop and count(set, '-inf', '(' .. text(stop)) or math.huge
    v.page[i] = {at = 2, rank = v.past[i]}
    v.before = v.before + v.past[i]
  end
  return v
end

-- older returns the n-th newest entry up to the view's beginning, or nil, and
-- whether it waits. It goes by runs of one set, of which there are few.
local function older(v, n)
  local left = {v.past[1], v.past[2] or 0}
  while true do
    local a, b = left[1] > 0 and at(v.sets[1], left[1] - 1), left[2] > 0 and at(v.sets[2], left[2] - 1)
    local i = (a and (not b or a >= b)) and 1 or 2
    local other = i == 1 and b or i == 2 and a
    if not (a or b) then return nil end
    local run = n
    if other then run = max(1, left[i] - count(v.sets[i], '-inf', text(other))) end
    if n <= run then
      if n > left[i] then return nil end
      return at(v.sets[i], left[i] - n), i == 2
    end
    n, left[i] = n - run, left[i] - run
  end
end

-- nextof takes the oldest entry that the view has not come to: it, and whether it waits.
local chunk = 64
local function nextof(v)
  local first, instant
  for i, set in ipairs(v.sets) do
    local p = v.page[i]
    if p and not p[p.at] then
      local rank, stop = p.rank, min(p.rank + chunk, v.seen[i])
      p = rank < stop and redis.call('ZRANGE', set, rank, stop - 1, 'WITHSCORES') or {}
      p.at, p.rank, p.head = 2, rank + #p / 2, tonumber(p[2])
      if not p.head then p = false end
      v.page[i] = p
    end
    if p and (not first or p.head <= instant) then first, instant = i, p.head end
  end
  if first then
    local p = v.page[first]
    p.at = p.at + 2
    p.head = p[p.at] and tonumber(p[p.at])
  end
  return instant, first == 2
end

local function entry(v, index)
  while index > v.read do
    if v.over then return nil end
    local instant, waits = nextof(v)
    if not instant then
      v.over = true
      return nil
    end
    work = work + 1
    v.read = v.read + 1
    v.score[v.read], v.waits[v.read] = instant, waits
  end
  if v.score[index] == nil then
    if index <= -v.before then return nil end
    local instant, waits = older(v, 1 - index)
    work = work + 10
    v.score[index], v.waits[index] = instant or false, waits
    if instant and v.score[index - 1] and v.score[index - 2] then -- one after another
      local following, i = view(v.scope, instant, not v.sets[2]), 1
      for k, set in ipairs(v.sets) do i = i - max(0, v.past[k] - following.past[k]) end
      for i = i, min(i + chunk - 1, 0) do
        if v.score[i] == nil then v.score[i], v.waits[i] = nextof(following) else nextof(following) end
      end
    end
  end
  return v.score[index] or nil, v.waits[index]
end

-- pass goes past the view's entries up to the instant, which is not before its beginning.
local function pass(v, instant)
  local score, here = v.score, v.passed
  while here > 0 and score[here] > instant do here = here - 1 end
  while (score[here + 1] or entry(v, here + 1) or math.huge) <= instant do here = here + 1 end
  v.passed = here
end

-- enter adds one who waits, after the view's beginning.
local function enter(v, instant)
  pass(v, instant)
  local index = v.passed + 1
  while index > 1 and v.score[index - 1] == instant do index = index - 1 end
  table.insert(v.score, index, instant)
  table.insert(v.waits, index, true)
  v.read = v.read + 1
end

-- clash returns until when the scope's limits forbid what they forbid at the
-- instant, or nil: of the windows of n + 1 that would hold the new one, each must
-- span the period, and a margin more where its first or last one waits, who may
-- come a hair late. All up to what is returned is forbidden, so that a search by
-- it finds the first place.
local function clash(v, instant, margin)
  pass(v, instant)
  local here, score, waits = v.passed, v.score, v.waits
  local following = score[here + 1]
  for _, r in ipairs(v.scope.rules) do
    local n, period, later = r.n, r.period, 0
    local span = period + margin
    work = work + 1
    if following and following < instant + span then
      repeat
        later = later + 1
        local e = later < n and (score[here + later + 1] or entry(v, here + later + 1))
      until not e or e >= instant + span
      work = work + later
    end
    for k = later, 0, -1 do -- so many of the window are later
      local last, first, lastwaits, firstwaits = instant, instant, false, false
      if k < n then
        local i = here + k - n + 1
        first = score[i] or entry(v, i)
        if not first or instant - first >= span then break end
        firstwaits = waits[i]
      end
      if k > 0 then last, lastwaits = score[here + k], waits[here + k] end
      work = work + 1
      if last - first < ((firstwaits or lastwaits) and span or period) then
        if k == n then first, firstwaits = following, waits[here + 1] end
        return max(last, first + (firstwaits and span or period))
      end
    end
  end
end

-- place returns the first instant from that one on at which all views have a
-- place, or nil when the search takes too long.
local function place(views, from, margins)
  local instant, agreed, i, limit = from, 0, 1, work + patience
  while agreed < #views do
    local v = views[i]
    local over = clash(v, instant, margins and v.scope.margin or 0)
    if not over then
      agreed, i = agreed + 1, i % #views + 1
    elseif work > limit then return nil
    else instant, agreed = over, 0 end
  end
  return instant
end

-- binding returns which scope and rule let a slot be no earlier: 1 for the general
-- scope, 2 for the category's, 0 for none.
local function binding(views, slot)
  local latest, which, rule = 0, 0, 0
  for _, v in ipairs(views) do
    pass(v, slot - 1)
    for i, r in ipairs(v.scope.rules) do
      local e = r.period > 0 and (v.score[v.passed - r.n + 1] or entry(v, v.passed - r.n + 1))
      if e and e + r.period >= latest then
        latest, which, rule = e + r.period, v.scope.name and 2 or 1, i
      end
    end
  end
  return which, rule
end

local function views(from, law)
  local list = {}
  for i, s in ipairs(scopes) do list[i] = view(s, from, law) end
  return list
end

-- first returns the first instant from that one on at which the request's scopes
-- have a place among those sent, and unless only the law is asked for among those
-- who wait; one behind all when the search takes too long.
local around -- the views that were searched
local function first(from, law)
  around = views(from - 1, law)
  local instant = place(around, from, false)
  if instant and instant > now and not law then instant = place(around, instant, true) end
  if instant then return instant end
  for _, s in ipairs(scopes) do from = max(from, at(s.sent, -1) or 0, not law and at(s.booked, -1) or 0) end
  return first(from, law)
end

-- live has the set expire when its last entry is out of every window; with it what
-- tells of a category's slots.
local function live(set, queue)
  local last = at(set, -1)
  if not last then return end
  local lives = math.ceil((life + max(0, last - now)) / 1000)
  redis.call('PEXPIRE', set, text(lives))
  if not queue then return end
  redis.call('PEXPIRE', queue, text(lives))
  if lives > redis.call('PTTL', limits) then redis.call('PEXPIRE', limits, text(lives)) end
end

-- many makes a call with many arguments as a few: unpack takes so many only.
local function many(command, key, list)
  for i = 1, #list, 2000 do redis.call(command, key, unpack(list, i, min(i + 1999, #list))) end
end

-- flags returns which of the slots are under the general limits.
local function flags(slots)
  local known = {}
  for i = 1, #slots, 1000 do
    local some = redis.call('ZMSCORE', all.booked, unpack(slots, i, min(i + 999, #slots)))
    for k = 1, min(1000, #slots - i + 1) do known[i + k - 1] = some[k] end
  end
  return known
end

-- classes returns the categories of which somebody waits, with the limits by
-- which they do, and the general limits by which all do.
local function classes()
  local stored, names = {}, {}
  local fields = redis.call('HGETALL', limits)
  for i = 1, #fields, 2 do
    local name = fields[i]
    stored[name] = fields[i + 1]
    if string.sub(name, 1, 1) == 'c' then names[#names + 1] = string.sub(name, 2) end
  end
  table.sort(names)
  local list = {}
  for i, name in ipairs(names) do list[i] = class(name, stored['c' .. name]) end
  return list, scope(stored.g or '', all.sent, all.booked)
end

-- forget drops the limits of categories of which nobody waits.
local function forget(list)
  local left = #list
  for _, c in ipairs(list) do
    if not any(c.booked) then
      redis.call('DEL', c.queue)
      redis.call('HDEL', limits, 'c' .. c.name)
      left = left - 1
    end
  end
  if left == 0 then redis.call('DEL', limits) end
end

local moved = {}
local function tell(name, slot, which)
  if name ~= id then
    local n = #moved
    moved[n + 1], moved[n + 2], moved[n + 3] = name, text(slot), which
  end
end

-- replan gives the slots from that instant on, in the order they have, the first
-- places after each other, among those sent and those before. Without a change
-- they all stay. It tells who comes forward, and returns where the next call is to go
-- on when there are more than one call may move.
--   floor   the slot of that rank in the own category is not before it: its
--           holder came for it, and those sent do not let it go sooner
--   partly  after a cancel: few come forward and none goes back; the others have
--           gained nothing when their turn comes
local function replan(start, partly, rank, floor)
  local list, stored = classes()
  local hidden = start ~= '-inf' and tonumber(start) or -1
  local beginning, oldest = math.huge, math.huge
  for _, c in ipairs(list) do
    local slots = redis.call('ZRANGEBYSCORE', c.booked, start, '+inf', 'WITHSCORES', 'LIMIT', 0, page + 1)
    c.slots, c.names, c.k, c.changes, c.told = {}, {}, 1, {}, {}
    for i = 1, #slots, 2 do c.names[#c.names + 1], c.slots[#c.slots + 1] = slots[i], tonumber(slots[i + 1]) end
    c.before = hidden >= 0 and count(c.booked, '-inf', '(' .. start) or 0
    c.newest = c.before > 0 and at(c.booked, c.before - 1) or 0
    c.general = flags(c.names)
    if c.slots[1] then
      beginning = min(beginning, max(now, c.newest))
      oldest = min(oldest, c.slots[1])
    end
  end
  -- The views reach back to the first place that is looked for, but not too far.
  local before = hidden >= 0 and count(all.booked, '-inf', '(' .. start) or 0
  if before > window then beginning = max(beginning, at(all.booked, before - window)) end
  if oldest == math.huge then return 0 end
  local pivot = min(beginning, oldest) - 1
  local common, changes = view(stored, pivot, false, hidden), {}
  local function views(c)
    if not c.views then
      local own = #c.rules > 0 and view(c, pivot, false, hidden) or nil
      c.views = {[true] = own and {own, common} or {common}, [false] = {own}}
    end
    return c.views[c.general[c.k] and true or false]
  end
  local left, following = partly and reach or page, 0
  while true do
    local c -- whose slot is next
    for _, other in ipairs(list) do
      if other.slots[other.k] and (not c or other.slots[other.k] < c.slots[c.k]) then c = other end
    end
    if not c then break end
    local old = c.slots[c.k]
    if left == 0 or work > budget then
      following = not partly and old or 0
      break
    end
    left, work = left - 1, work + 3 + #list
    local from = min(old, now + lead)
    if floor and c.name == own.name and c.before + c.k - 1 == rank then from = floor end
    from = max(now, pivot + 1, c.newest, from)
    local vs = views(c)
    local slot = place(vs, from, true) or old
    if slot < old and old - slot <= slack and place(vs, old, true) == old then slot = old end
    if partly and slot > old or slot <= now and old <= now then slot = old end -- due and expected
    if slot < old - slack then
      work = work + 3
      local which = binding(vs, slot)
      c.told[#c.told + 1] = {c.k, slot, which == 2 and c.name or 1}
    end
    for _, v in ipairs(vs) do enter(v, slot) end
    if slot ~= old then
      work = work + 2
      local name, at = c.names[c.k], text(slot)
      local n = #c.changes
      c.changes[n + 1], c.changes[n + 2] = at, name
      if c.general[c.k] then
        n = #changes
        changes[n + 1], changes[n + 2] = at, name
      end
    end
    c.newest, c.k = slot, c.k + 1
  end
  for _, c in ipairs(list) do
    many('ZADD', c.booked, c.changes)
    if #c.changes > 0 then live(c.booked, c.queue) end
    local names = c.told[1] and redis.call('ZRANGE', c.queue, c.before, c.before + c.k)
    for _, t in ipairs(c.told) do
      if names[t[1]] then tell(names[t[1]], t[2], t[3]) end
    end
  end
  many('ZADD', all.booked, changes)
  if #changes > 0 then live(all.booked) end
  return following
end

-- lift ends the waiting of those whom nothing limits any more, and tells them. It
-- returns whether there may be more of them.
local function lift()
  local list, stored = classes()
  local more = false
  for _, c in ipairs(list) do
    if (c.exempt or c.free) and not more then
      local slots, names = redis.call('ZRANGE', c.booked, 0, ends - 1), redis.call('ZRANGE', c.queue, 0, ends - 1)
      local general, gone, who = flags(slots), {}, {}
      for k, slot in ipairs(slots) do
        if c.exempt or stored.free or not general[k] then
          gone[#gone + 1] = slot
          who[#who + 1] = names[k]
          if names[k] then tell(names[k], now, c.exempt and c.name or 1) end
        end
      end
      many('ZREM', c.booked, gone)
      many('ZREM', all.booked, gone)
      many('ZREM', c.queue, who)
      more = #gone == ends
    end
  end
  forget(list)
  return more
end

-- trim drops the slots that nobody has come for within the horizon, and their holders.
local function trim()
  local dead = text(now - keep)
  if count(own.booked, '-inf', dead) + count(all.booked, '-inf', dead) == 0 then return end
  local list = classes()
  for _, c in ipairs(list) do
    local n = redis.call('ZREMRANGEBYSCORE', c.booked, '-inf', dead)
    if n > 0 then redis.call('ZREMRANGEBYRANK', c.queue, 0, n - 1) end
  end
  redis.call('ZREMRANGEBYSCORE', all.booked, '-inf', dead)
  forget(list)
end

local sent, rank, slot -- what the notification holds: admission, place in the queue, slot
local name             -- of the slot

-- find looks for the notification's slot.
local function find()
  rank = redis.call('ZRANK', own.queue, id)
  local held = rank and redis.call('ZRANGE', own.booked, rank, rank, 'WITHSCORES') or {}
  name, slot = held[1], tonumber(held[2])
  if rank and not slot then redis.call('ZREM', own.queue, id) end
end

-- leave takes the notification and its slot out.
local function leave()
  redis.call('ZREM', own.queue, id)
  redis.call('ZREM', own.booked, name)
  redis.call('ZREM', all.booked, name)
  if not any(own.booked) then forget((classes())) end
  slot = nil
end

local function send(instant)
  for _, s in ipairs(scopes) do
    redis.call('ZADD', s.sent, text(instant), member)
    live(s.sent)
  end
end

-- book adds a slot to the category's, and the notification to its queue.
local function book(instant, order)
  local number = redis.call('HINCRBY', limits, '#', 1)
  redis.call(any(own.booked) and 'HSETNX' or 'HSET', limits, 'c' .. own.name, ARGV[15])
  redis.call('ZADD', own.queue, text(order), id)
  redis.call('ZADD', own.booked, text(instant), number)
  if general then
    redis.call(any(all.booked) and 'HSETNX' or 'HSET', limits, 'g', ARGV[14])
    redis.call('ZADD', all.booked, text(instant), number)
    live(all.booked)
  end
  live(own.booked, own.queue)
end

-- changed reports whether others who wait have slots by other limits than the
-- request's. If so, the request's are theirs now.
local function changed()
  local was = redis.call('HMGET', limits, 'g', 'c' .. own.name, '@')
  local g = general and was[1] and was[1] ~= ARGV[14] and any(all.booked)
  local c = was[2] and was[2] ~= ARGV[15] and any(own.booked)
  if not (g or c) then return false end
  local ago = now - (tonumber(was[3] or nil) or -flapping)
  if op == 'acquire' and ago >= 0 and ago < flapping then return false end
  if g then redis.call('HSET', limits, 'g', ARGV[14]) end
  if c then redis.call('HSET', limits, 'c' .. own.name, ARGV[15]) end
  redis.call('HSET', limits, '@', text(now))
  return true
end

-- full returns nil when there is room for one more who waits. Otherwise it
-- returns when a newcomer is to come back: behind all, and behind those that there
-- was no room for before, one mean distance after another. While any of these is to
-- come, half the room is theirs.
local function full()
  if most == 0 then return nil end
  local last = tonumber(redis.call('GET', beyond) or nil)
  if last and last <= now then last = nil end
  if redis.call('ZCARD', general and all.booked or own.booked) < ((last and not back) and most / 2 or most) then return nil end
  local instant, distance = max(now, last or 0), 0
  for _, s in ipairs(scopes) do
    instant = max(instant, at(s.booked, -1) or 0)
    for _, r in ipairs(s.rules) do distance = max(distance, math.ceil(r.period / r.n) + s.margin) end
  end
  return instant + distance
end

-- decide returns what becomes of the notification, and changes nothing:
--   status  1 granted, 2 deferred, 3 refused, 4 deferred without a slot
--   instant the one to go or to come at
--   fresh   the slot that its category gets for it, and order, its place in the queue
--   late    it came for its slot, and those sent do not let it go before the instant
local granted, deferred, refused, slotless = 1, 2, 3, 4
local function decide()
  -- What it was let through with it keeps, as far as those sent allow, whoever waits.
  if sent and not slot then
    local instant = first(max(now, sent), true)
    if instant <= now or instant == sent then return granted, instant end
  end
  local fresh, order
  if not slot then
    -- behind all of its category, who have the same limits, and behind all that were
    -- let through, also ahead; into the first place beside the others
    local waiting = redis.call('ZCARD', own.queue)
    local from = max(now, sent or 0, at(own.booked, -1) or 0)
    for _, s in ipairs(scopes) do
      for _, r in ipairs(s.rules) do
        if r.period > 0 then from = max(from, (at(s.sent, -r.n) or 0) + r.period) end
      end
    end
    fresh = first(from)
    local last = waiting > 0 and at(own.queue, -1) or 0
    order = accepted > 0 and accepted or max(now, last + 1)
    local ahead = waiting
    if order <= last then
      ahead = count(own.queue, '-inf', '(' .. text(order))
      for _, other in ipairs(redis.call('ZRANGEBYSCORE', own.queue, text(order), text(order))) do
        if other < id then ahead = ahead + 1 end
      end
    end
    slot = ahead < waiting and at(own.booked, ahead) or fresh -- others who were accepted later wait behind it
    -- What is granted ahead is out of reach of whoever was accepted earlier and comes yet.
    if slot == fresh and fresh <= (accepted > 0 and now or now + wait) then return granted, fresh end
    local later = full()
    if later then return later > now + horizon and refused or slotless, later end
    if slot == fresh then return slot > now + horizon and refused or deferred, slot, fresh, order end
  end
  if slot > now + (fresh and 0 or wait) then return deferred, slot, fresh, order end
  local instant = first(max(now, slot, sent or 0), true)
  -- Ahead it is granted its own slot, and no other's: those would be late in turn.
  local near = slot
  for i, s in ipairs(scopes) do near = (i == 1 or slot + s.margin < near) and slot + s.margin or near end
  if instant <= now or instant == sent or instant <= min(near, now + wait) then return granted, instant, fresh, order end
  return deferred, instant, fresh, order, true
end

if op ~= 'replan' then trim() end
sent = redis.call('ZSCORE', (general and all or own).sent, member)
sent = tonumber(sent or nil)
local function unsend()
  for _, s in ipairs(scopes) do redis.call('ZREM', s.sent, member) end
end
if sent then unsend() end
local denied = sent == claim and claim > 0
if denied then sent = nil end
-- What stands in sent may go out at its instant, or has. It gives way only to an
-- admission now, and not before it: what was let through since counted on it.
if sent then wait = 0 end

local status, instant, which, rule, held, following = 0, now, 0, 0, 0, 0
if op == 'acquire' or op == 'peek' then
  -- who has come to wait since the claim may have counted it
  if op == 'acquire' and (changed() or denied and alone) then following = replan('-inf') end
  find()
  held = slot or 0
  local booked, fresh, order, late = slot ~= nil, nil, nil, false
  status, instant, fresh, order, late = decide()
  if op == 'acquire' and status ~= refused and status ~= slotless and fresh then
    book(fresh, order)
    find()
    booked = true
  end
  if late then
    if op == 'acquire' then
      local more = replan(text(slot), false, rank, instant)
      if more > 0 and (following == 0 or more < following) then following = more end
      find()
      instant = max(instant, slot)
    end
    if instant <= now + wait then status = granted end
  end
  if status == deferred and instant > now + horizon then status = refused end
  if op == 'acquire' then
    if booked and status ~= deferred then leave() end
    if status == slotless then
      redis.call('SET', beyond, text(instant), 'PX', text(math.ceil((instant - now) / 1000)))
    elseif status == granted then
      -- an admission ahead is moved by a hair, out of reach of the correction of a
      -- claim that may have left it
      if instant == sent then instant = instant + 1 end
      for _, s in ipairs(scopes) do redis.call('ZREMRANGEBYSCORE', s.sent, '-inf', text(now - keep)) end
    end
  end
  if instant > now then which, rule = binding(instant == fresh and around or views(instant - 1), instant) end
  if op == 'acquire' and status == granted then send(instant)
  elseif sent then send(sent) end -- it may have gone out then
elseif op == 'cancel' or op == 'leave' then
  if op == 'leave' and sent then -- an admission that was used counts
    send(sent)
    sent = nil
  end
  find()
  held = slot or 0
  local from = slot and not sent and text(slot) or '-inf'
  if slot then leave() end
  if held > 0 or sent then replan(from, true) end
else
  if op == 'reschedule' then changed() end
  following = lift() and 1 or replan(op == 'reschedule' and '-inf' or cursor)
end

-- Whether somebody waits so near that a claim would be in vain or in the way.
local near = any(own.booked)
if general and not near then
  local longest = 0
  for _, r in ipairs(all.rules) do longest = max(longest, r.period) end
  near = count(all.booked, '-inf', text(now + longest + all.margin)) > 0
end
local reply = {status, now, instant, which, rule, held, near and 1 or 0, text(following)}
for _, field in ipairs(moved) do reply[#reply + 1] = field end
return reply
