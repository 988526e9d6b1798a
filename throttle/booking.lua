-- The waiting of one user's notifications: everything that has to branch. The
-- grant of a first visit does not come here; claim.go has it.
--
-- Admissions are law, bookings are advice. What goes now is checked against those
-- sent alone, so that no limit ever rests on what waits. A booking says who is next
-- and when to come; were all of them lost, only order and punctuality would suffer.
--
-- Those that wait are kept in three kinds of sorted sets:
--   booked      the slots of all that wait, named CATEGORY NUMBER
--   booked:CAT  those of a category, by the same names and instants
--   queue:CAT   the notifications that wait of the category, by the instant of acceptance
-- A slot is nobody's by name: the k-th of a category's queue holds its k-th slot.
-- All of a category have the same limits, so that any of its slots fits any of
-- them. One that was accepted earlier goes in ahead and nothing has to be moved, and
-- however slots are given, taken and moved, the order of acceptance holds.
--
-- The hash limits has the limits by which those that wait were given their slots
-- ("g" the general ones, "c"CAT a category's), the number of the last slot ("#"),
-- when the limits changed last ("@"), and the slot from which on they are still to be
-- given again ("rest"). beyond is the instant told last to one that there was no room for.
--
-- One call decides of one notification, or of several of a category, one after another
-- at one instant. It may answer for the first of them only: the rest ask again.
--
-- KEYS  sent, booked, limits, beyond; of the category: sent, booked, queue
-- ARGV  op, claim, 1 when nothing waited at the claim, keep, life, how many may wait or 0,
--       the general limits, the category's, the category, the other ID of which an heir
--       inherits, 1 for a report; then of each notification: member, ID, wait, horizon, 1
--       for one that comes back, accepted or 0
-- Instants and periods are in µs of this server's clock. Limits are written
-- KIND MARGIN {N PERIOD}…, kind 2 is exempt; "" where the scope is none of the request's.
--
-- It returns now, 1 when a claim would be in vain, 1 when slots are still to be given
-- again, the IDs and slots of those that came forward, one after another, and of each
-- notification: status, instant, scope (1 the general, 2 the category's) and rule (from
-- 1) that let it be no earlier, the slot before, and for a report what each rate's window
-- holds.

local op, claim, alone = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'
local keep, life, most = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local other, report = ARGV[10], ARGV[11] == '1'
local limits, beyond = KEYS[3], KEYS[4]
local member, id, wait, horizon, back, accepted, lead -- of the notification that is decided

-- What one call may do, as Redis serves nobody else meanwhile: the slots that it gives
-- again, the steps until it leaves the rest to later calls, which are those of one search
-- too, and how many slots before those that it gives again it looks for places. A step
-- takes about a microsecond.
local page, budget, window = 500, 4000, 500
-- By how much later than it needs a slot may be and stay: nobody is woken for it.
local slack = 20000
-- Whoever was accepted earlier may be on its way for this long: no new slot is sooner,
-- since two that were due would be let through in the order they come; unless it is
-- before others' slots, and would be later by more than as long, or beyond the horizon.
local settling = 100000
-- How long workers may disagree about limits: for as long nobody is moved again.
local flapping = 1000000

local max, min = math.max, math.min
local function text(instant) return string.format('%.0f', instant) end

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
-- What comes forward has to be woken, which takes this long: with an earlier slot it
-- would be late for it, and whatever is awake would take it. At least it settles, as a
-- newcomer's slot does: to give all again must not move what nothing has happened to.
local function leadOf(wait) return max(settling, min(wait, 1000000)) end

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
  s.words = (s.exempt or not s.free) and words or '' -- limits that limit nothing are none
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
local all, own = scope(ARGV[7], KEYS[1], KEYS[2]), class(ARGV[9], ARGV[8])
local general, special = ARGV[7] ~= '', ARGV[8] ~= ''
local scopes = {}
if special then scopes[1] = own end
if general then scopes[#scopes + 1] = all end

local function count(set, from, upto) return redis.call('ZCOUNT', set, from, upto) end
local function any(set) return redis.call('EXISTS', set) == 1 end

-- at returns the score of the set's entry with that rank from the oldest, or nil.
local function at(set, rank)
  return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2])
end

-- newest returns the last instant of the scope's admissions, but for the notification's
-- own, or 0. Nothing is sent before the end.
local function newest(s)
  s.newest = s.newest or at(s.sent, -1) or 0
  return s.newest
end

-- Whether anybody waits. Most of whom the script is asked for find nobody, and are
-- spared to look for them.
local anybody = any(all.booked)

-- A view is a scope's entries in order, each read once, when it is asked for.
-- Entry 1 is the first after the instant that the view begins at, entry 0 the last up
-- to it. Those that wait are in it but for those from the rank "hidden" on, and not at
-- all in one of the law alone. Of entries at one instant those that wait come last.
local work = 0
local function view(s, from, law, hidden)
  local v = {scope = s, sets = {s.sent, anybody and not law and s.booked or nil}, from = from,
    past = {}, seen = {}, page = {}, score = {}, waits = {}, before = 0, read = 0, passed = 0}
  for i, set in ipairs(v.sets) do
    v.past[i] = count(set, '-inf', text(from))
    v.seen[i] = i == 2 and hidden or math.huge
    v.page[i] = {at = 2, rank = v.past[i]}
    v.before = v.before + v.past[i]
  end
  return v
end

-- older returns the n-th newest entry up to the view's beginning, of which there are
-- so many, and whether it waits. It goes by runs of one set, of which there are few.
local function older(v, n)
  local left = {v.past[1], v.past[2] or 0}
  while true do
    local a, b = left[1] > 0 and at(v.sets[1], left[1] - 1), left[2] > 0 and at(v.sets[2], left[2] - 1)
    local i = (a and (not b or a > b)) and 1 or 2
    if n == 1 then return i == 1 and a or b, i == 2 end
    local run = n
    if a and b then run = max(1, left[i] - count(v.sets[i], '-inf', text(min(a, b)))) end
    if n <= run then return at(v.sets[i], left[i] - n), i == 2 end
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
    if p and (not first or p.head < instant) then first, instant = i, p.head end
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
    local instant, waits = nextof(v)
    if not instant then return nil end
    work = work + 1
    v.read = v.read + 1
    v.score[v.read], v.waits[v.read] = instant, waits
  end
  if v.score[index] == nil then
    if index <= -v.before then return nil end
    local instant, waits = older(v, 1 - index)
    work = work + 10
    v.score[index], v.waits[index] = instant, waits
    if v.score[index - 1] and v.score[index - 2] then -- one after another
      local following, i = view(v.scope, instant, not v.sets[2]), 1
      for k, set in ipairs(v.sets) do i = i - max(0, v.past[k] - following.past[k]) end
      for i = i, min(i + chunk - 1, 0) do
        if v.score[i] == nil then v.score[i], v.waits[i] = nextof(following) else nextof(following) end
      end
    end
  end
  return v.score[index], v.waits[index]
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
  table.insert(v.score, v.passed + 1, instant)
  table.insert(v.waits, v.passed + 1, true)
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
        return first + (firstwaits and span or period)
      end
    end
  end
end

-- place returns the first instant from that one on at which all views have a
-- place, or nil when the search takes too long.
local function place(views, from, margins)
  local instant, agreed, i, limit = from, 0, 1, work + budget
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
-- scope, 2 for the category's, 0 for none. A slot behind those that were let through
-- counts those as well whose instant is later.
local function binding(views, slot)
  local latest, which, rule = 0, 0, 0
  for _, v in ipairs(views) do
    local ahead = newest(v.scope) >= slot
    pass(v, slot - 1)
    for i, r in ipairs(v.scope.rules) do
      local e = r.period > 0 and (v.score[v.passed - r.n + 1] or entry(v, v.passed - r.n + 1))
      if ahead and r.period > 0 and at(v.scope.sent, -r.n) == slot - r.period then e = slot - r.period end
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

-- firstIn returns the first instant from that one on at which the views have a place, or
-- nil when the search takes too long. Behind now that is with margins, but by the law alone.
local function firstIn(around, from, law)
  local instant = place(around, from, false)
  if instant and instant > now and not law then instant = place(around, instant, true) end
  return instant
end

-- first returns the first instant from that one on at which the request's scopes
-- have a place among those sent, and unless only the law is asked for among those
-- who wait; one behind all when the search takes too long.
local function first(from, law)
  local instant = firstIn(views(from - 1, law), from, law)
  if instant then return instant end
  for _, s in ipairs(scopes) do from = max(from, newest(s), not law and at(s.booked, -1) or 0) end
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

-- classes returns the categories of which some wait, by name, with the limits by
-- which they do, and the general limits by which all do.
local function classes()
  local list, stored, fields = {}, nil, redis.call('HGETALL', limits)
  for i = 1, #fields, 2 do
    local kind, name = string.match(fields[i], '^([gc])(.*)')
    if kind == 'c' then list[name] = class(name, fields[i + 1])
    elseif kind == 'g' then stored = fields[i + 1] end
  end
  return list, scope(stored or '', all.sent, all.booked)
end

local moved = {}
local function tell(name, slot)
  if name and name ~= id then
    moved[#moved + 1] = name
    moved[#moved + 1] = slot
  end
end

-- rest returns the rank of the slot from which on they are still to be given again,
-- or nil; all are when that has been left meanwhile.
local function rest()
  local name = redis.call('HGET', limits, 'rest')
  return name and (redis.call('ZRANK', all.booked, name) or 0)
end

-- replan gives the slots from that rank on, in the order they have, the first
-- places after each other, among those sent and those before. Without a change
-- they all stay. Those that nothing limits any more wait no longer. It tells what
-- comes forward. What is too much for one call is left to later ones: until then some
-- slots are too early or too late, which those that come for them find out. Where there
-- is no place before those that are left, slots go behind all, not between them: these
-- would have to be given again and again.
--   floor   the first of them is not before it: its holder came for it, and those
--           sent do not let it go sooner
local function replan(start, floor)
  local left = rest()
  local slots = redis.call('ZRANGE', all.booked, start, start + page, 'WITHSCORES')
  local list, stored = classes()
  local met, of, beginning = {}, {}, math.huge
  for i = 1, #slots, 2 do
    local c = list[string.match(slots[i], '^%S*')]
    of[i] = c
    if c and not c.k then
      c.before = redis.call('ZRANK', c.booked, slots[i])
      c.newest = max(now, c.before > 0 and at(c.booked, c.before - 1) or 0)
      c.k, c.changes, c.gone, c.told = 0, {}, {}, {}
      beginning = min(beginning, c.newest)
      met[#met + 1] = c
    end
  end
  -- The views reach back to the first place that is looked for, but not too far.
  if start > window then beginning = max(beginning, at(all.booked, start - window)) end
  local pivot = min(beginning, tonumber(slots[2] or nil) or 0) - 1
  local common, changes, gone = view(stored, pivot, false, start), {}, {}
  local following, stop = nil, tonumber(slots[2 * page + 2] or nil) or math.huge
  local last, tail = at(all.booked, -1), nil
  for i = 1, #slots, 2 do
    local name, old, c = slots[i], tonumber(slots[i + 1]), of[i]
    if i > 2 * page or work > budget then
      following = name
      break
    end
    if not c then -- what it was of is lost
      gone[#gone + 1] = name
    elseif not floor and (c.exempt or c.free and stored.free) then
      gone[#gone + 1], c.gone[#c.gone + 1] = name, name
      c.k = c.k + 1
      c.told[c.k] = text(now)
    else
      work = work + 3
      c.views = c.views or #c.rules > 0 and {view(c, pivot, false, c.before), common} or {common}
      local first = max(c.newest, i == 1 and floor or min(old, now + lead))
      local slot = place(c.views, first, true)
      if slot and old >= c.newest and math.abs(slot - old) <= slack and place(c.views, old, false) == old then
        slot = old
      end
      if not slot or slot > max(old, now) and slot >= stop and not c.behind then
        tail = tail or view(stored, last)
        c.behind, c.views = true, #c.rules > 0 and {view(c, last), tail} or {tail}
        slot = place(c.views, first, true) or old
      end
      if slot <= now and old <= now then slot = old end -- due and expected
      for _, v in ipairs(c.views) do enter(v, slot) end
      c.newest, c.k = max(now, slot), c.k + 1
      if slot ~= old then
        work = work + 2
        local at, n, m = text(slot), #c.changes, #changes
        c.changes[n + 1], c.changes[n + 2] = at, name
        changes[m + 1], changes[m + 2] = at, name
        if slot < old then c.told[c.k] = at end
      end
    end
  end
  for _, c in ipairs(met) do
    local names = next(c.told) and redis.call('ZRANGE', c.queue, c.before, c.before + c.k)
    for k = 1, names and c.k or 0 do
      if c.told[k] then tell(names[k], c.told[k]) end
    end
    if c.gone[1] then
      redis.call('ZREM', c.booked, unpack(c.gone))
      redis.call('ZREMRANGEBYRANK', c.queue, c.before, c.before + #c.gone - 1)
    end
    if c.changes[1] then
      redis.call('ZADD', c.booked, unpack(c.changes))
      live(c.booked, c.queue)
    end
  end
  if gone[1] then redis.call('ZREM', all.booked, unpack(gone)) end
  if changes[1] then
    redis.call('ZADD', all.booked, unpack(changes))
    live(all.booked)
  end
  if left and left < start then return end
  if following then redis.call('HSET', limits, 'rest', following)
  elseif left then redis.call('HDEL', limits, 'rest') end
end

-- trim drops the slots that nothing has come for within the horizon, and their holders;
-- and of the category those that nobody holds, as its queue was lost.
local function trim()
  if not anybody then return end
  local waiting = redis.call('ZCARD', own.queue)
  local surplus = redis.call('ZRANGE', own.booked, waiting, waiting + page)
  if surplus[1] then
    redis.call('ZREM', own.booked, unpack(surplus))
    redis.call('ZREM', all.booked, unpack(surplus))
  end
  local dead = text(now - keep)
  if redis.call('ZREMRANGEBYSCORE', all.booked, '-inf', dead) == 0 then return end
  for _, c in pairs((classes())) do
    local n = redis.call('ZREMRANGEBYSCORE', c.booked, '-inf', dead)
    if n > 0 then redis.call('ZREMRANGEBYRANK', c.queue, 0, n - 1) end
  end
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
end

-- book adds slots to the category's, and as many to its queue: places in it and IDs, one
-- after another.
local function book(instants, holders)
  local last, slots = redis.call('HINCRBY', limits, '#', #instants), {}
  for i, instant in ipairs(instants) do
    slots[2 * i - 1], slots[2 * i] = text(instant), own.name .. ' ' .. last - #instants + i
  end
  redis.call(any(own.booked) and 'HSETNX' or 'HSET', limits, 'c' .. own.name, own.words)
  redis.call('HSETNX', limits, 'g', all.words)
  redis.call('ZADD', own.queue, unpack(holders))
  redis.call('ZADD', own.booked, unpack(slots))
  redis.call('ZADD', all.booked, unpack(slots))
  anybody = true
  live(own.booked, own.queue)
  live(all.booked)
end

-- changed reports whether others that wait have slots by other limits than the
-- request's. If so, the request's are theirs now.
local function changed()
  local was = redis.call('HMGET', limits, 'g', 'c' .. own.name, '@')
  local g = was[1] and was[1] ~= all.words
  local c = was[2] and was[2] ~= own.words and any(own.booked)
  if not (g or c) then return false end
  local ago = now - (tonumber(was[3] or nil) or -flapping)
  if op == 'acquire' and ago >= 0 and ago < flapping then return false end
  redis.call('HSET', limits, 'g', all.words, 'c' .. own.name, own.words, '@', text(now))
  return true
end

local function waitingNow() return redis.call('ZCARD', all.booked) end
local function toldLast() return tonumber(redis.call('GET', beyond) or nil) end

-- full returns nil when there is room for one more who waits. Otherwise it
-- returns when a newcomer is to come back: behind all, and behind those that there
-- was no room for before, one mean distance after another. While any of these is to
-- come, half the room is theirs.
-- What the row has not entered yet counts: how many wait, the last one of the category,
-- and the last one without a slot.
local function full(row)
  if most == 0 then return nil end
  local last = row and row.told or not row and toldLast()
  if last and last <= now then last = nil end
  if (row and row.waiting or waitingNow()) < ((last and not back) and most / 2 or most) then return nil end
  local instant, distance = max(now, last or 0, row and row.last or 0), 0
  for _, s in ipairs(scopes) do
    instant = max(instant, at(s.booked, -1) or 0)
    for _, r in ipairs(s.rules) do distance = max(distance, math.ceil(r.period / r.n) + s.margin) end
  end
  return instant + distance
end

-- behindSent returns the first instant, from that one on, behind all that were let
-- through, those ahead too.
local function behindSent(from)
  for _, s in ipairs(scopes) do
    local ahead = newest(s) > from
    for _, r in ipairs(ahead and s.rules or {}) do
      if r.period > 0 then from = max(from, (at(s.sent, -r.n) or 0) + r.period) end
    end
  end
  return from
end

-- settled returns a newcomer's slot: a later one where the fresh one is too near. search
-- returns the first place from an instant on.
local function settled(fresh, search)
  if accepted == 0 or fresh <= now or fresh >= now + settling then return fresh end
  local later = search(now + settling)
  return later and later <= now + min(2 * settling, horizon) and later or fresh
end

-- decide returns what becomes of the notification, and changes nothing:
--   status  1 granted, 2 deferred, 4 deferred without a slot; 3, refused, is for acquire to say
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
    fresh = settled(first(behindSent(max(now, at(own.booked, -1) or 0))), first)
    local last = waiting > 0 and at(own.queue, -1) or 0
    order = accepted > 0 and accepted or max(now, last + 1)
    local ahead = waiting
    if order <= last then
      ahead = count(own.queue, '-inf', '(' .. text(order))
      for _, one in ipairs(redis.call('ZRANGEBYSCORE', own.queue, text(order), text(order))) do
        if one < id then ahead = ahead + 1 end
      end
    end
    slot = ahead < waiting and at(own.booked, ahead) or fresh -- others who were accepted later wait behind it
    -- What is granted ahead is out of reach of whoever was accepted earlier and comes yet.
    if slot == fresh and fresh <= (accepted > 0 and now or now + wait) then return granted, fresh end
    local later = full()
    if later then return slotless, later end
  end
  if slot > now + (fresh and 0 or wait) then return deferred, slot, fresh, order end
  local instant = first(max(now, slot, sent or 0), true)
  -- Ahead it is granted its own slot, and no other's: those would be late in turn.
  local near = now + wait
  for _, s in ipairs(scopes) do near = min(near, slot + s.margin) end
  if instant <= now or instant == sent or instant <= near then return granted, instant, fresh, order end
  return deferred, instant, fresh, order, true
end

local admission, denied                   -- the notification's, and whether it is a claim that was denied
local status, instant, which, rule, held -- the answer

-- near reports whether somebody waits so near that a claim would be in vain or in the way.
local function near()
  if any(own.booked) then return true end
  local longest = 0
  for _, r in ipairs(all.rules) do longest = max(longest, r.period) end
  return count(all.booked, '-inf', text(max(now, claim) + longest)) > 0
end

-- tellLast notes when the last notification without a slot comes back.
local function tellLast(instant)
  redis.call('SET', beyond, text(instant), 'PX', text(math.ceil((instant - now) / 1000)))
end

local function acquire()
  -- What stands in sent may go out at its instant, or has. It gives way only to an
  -- admission now, and not before it: what was let through since counted on it.
  if sent then wait = 0 end
  if op == 'acquire' and anybody then
    -- what has come to wait since the claim may have counted it
    local start = (changed() or denied and alone and near()) and 0 or rest()
    if start then replan(start) end
  end
  find()
  held = slot or 0
  local booked, fresh, order, late = slot ~= nil, nil, nil, false
  status, instant, fresh, order, late = decide()
  -- one that is refused at once has taken no slot, and no other's
  if op == 'acquire' and fresh and (late or instant <= now + horizon) then
    book({fresh}, {text(order), id})
    find()
    booked = true
  end
  if late then
    if op == 'acquire' then
      replan(redis.call('ZRANK', all.booked, name), instant)
      find()
      instant = max(instant, slot)
    end
    -- its slot was given again by the limits of all that wait, which a request's need not be
    if instant <= now + wait and first(instant, true) == instant then status = granted end
  end
  if status ~= granted and instant > now + horizon then status = refused end
  if op == 'acquire' then
    if booked and status ~= deferred then leave() end
    if status == slotless then
      tellLast(instant)
    elseif status == granted then
      -- an admission ahead is moved by a hair, out of reach of the correction of a
      -- claim that may have left it
      if instant == sent then instant = instant + 1 end
      for _, s in ipairs(scopes) do redis.call('ZREMRANGEBYSCORE', s.sent, '-inf', text(now - keep)) end
      sent = instant
    end
  end
  if instant > now then which, rule = binding(views(instant - 1), instant) end
end

local function cancel()
  find()
  held = slot or 0
  if slot then leave() end
  if sent and op == 'cancel' then
    sent = nil
    replan(0)
  elseif held > 0 then replan(count(all.booked, '-inf', '(' .. text(held))) end
end

-- inherit gives the notification the other's place in the queue, unless its own is
-- earlier. Of two slots the later one goes.
local function inherit()
  local theirs, order = redis.call('ZRANK', own.queue, other), redis.call('ZSCORE', own.queue, other)
  if not theirs then return end
  find()
  redis.call('ZREM', own.queue, other)
  if not rank or theirs < rank then redis.call('ZADD', own.queue, order, id) end
  if not rank then return end
  local later = redis.call('ZRANGE', own.booked, max(rank, theirs), max(rank, theirs), 'WITHSCORES')
  if not later[1] then return end
  redis.call('ZREM', own.booked, later[1])
  redis.call('ZREM', all.booked, later[1])
  replan(count(all.booked, '-inf', '(' .. later[2]))
end

local function reschedule() replan(not changed() and rest() or 0) end

-- proceed goes on with a reschedule, unless others have done so to the end: to begin anew
-- then would have it last for as long as they come.
local function proceed()
  local start = rest()
  if start then replan(start) end
end

local operations = {
  acquire = acquire, peek = acquire, cancel = cancel, leave = cancel, inherit = inherit,
  reschedule = reschedule, proceed = proceed,
}
local function send(s, instant)
  redis.call('ZADD', s.sent, text(instant), member)
  live(s.sent)
end

-- one decides of the notification.
local function one()
  admission = tonumber(redis.call('ZSCORE', (general and all or own).sent, member) or nil)
  denied = admission == claim and claim > 0
  status, instant, which, rule, held = 0, now, 0, 0, 0
  sent, rank, slot, name = nil, nil, nil, nil
  all.newest, own.newest = nil, nil
  local done, fault = pcall(function()
    if not denied then sent = admission end
    if op == 'acquire' or op == 'peek' or op == 'cancel' then
      for _, s in ipairs(scopes) do redis.call('ZREM', s.sent, member) end
    end
    operations[op]()
    for _, s in ipairs(sent and scopes or {}) do send(s, sent) end
  end)
  if not done then -- on a key of another type, say: what was let through stays so
    for _, s in ipairs(not denied and admission and scopes or {}) do send(s, admission) end
    error(fault, 0)
  end
  anybody = anybody and any(all.booked)
  if not anybody then redis.call('DEL', limits) end
end

-- A row is of newcomers in the order of acceptance that get slots, or come back without
-- one, behind all that wait of their category: none of them may go now, and nobody is
-- moved. One view serves them all, and what they get is entered together, at its end.
local row

-- beginRow begins a row, where some of the category wait.
local function beginRow()
  local last = anybody and at(own.booked, -1)
  if not last or last <= now then return end
  all.newest, own.newest = nil, nil
  local from = behindSent(last)
  row = {from = from, views = views(from - 1), last = last, order = at(own.queue, -1),
    waiting = waitingNow(), told = toldLast(), instants = {}, holders = {}}
end

-- join decides of the notification as one of the row, and returns whether it is.
local function join()
  if not row or accepted <= row.order or redis.call('ZSCORE', own.queue, id) then return false end
  for _, s in ipairs(scopes) do
    if redis.call('ZSCORE', s.sent, member) then return false end
  end
  local search = function(from) return firstIn(row.views, max(from, row.from)) end
  local later = full(row)
  local slot = not later and search(max(row.from, row.last))
  if not later and not slot then return false end
  held, status, instant = 0, later and slotless or deferred, later or settled(slot, search)
  which, rule = binding(instant < row.from and views(instant - 1) or row.views, instant)
  if instant > now + horizon then
    status = refused
  elseif later then
    row.told, row.tells = later, true
  else
    for _, v in ipairs(row.views) do enter(v, instant) end
    row.last, row.order, row.waiting = instant, accepted, row.waiting + 1
    row.instants[#row.instants + 1] = instant
    row.holders[#row.holders + 1], row.holders[#row.holders + 2] = text(accepted), id
  end
  return true
end

-- endRow enters what those of the row got.
local function endRow()
  if not row then return end
  if row.instants[1] then book(row.instants, row.holders) end
  if row.tells then tellLast(row.told) end
  row = nil
end

trim()
local reply = {now, 0, 0, moved}
local begins, fields = 12, 6
for i = begins, #ARGV, fields do
  member, id, wait, horizon = ARGV[i], ARGV[i + 1], tonumber(ARGV[i + 2]), tonumber(ARGV[i + 3])
  back, accepted = ARGV[i + 4] == '1', tonumber(ARGV[i + 5])
  lead = leadOf(wait)
  if not join() then
    endRow()
    one()
    if op == 'acquire' and i + fields <= #ARGV then beginRow() end
  end
  local answer = {status, instant, which, rule, held}
  for i = report and #scopes or 0, 1, -1 do -- the general limits first
    for k = 2, #scopes[i].rules do answer[#answer + 1] = count(scopes[i].sent, '(' .. text(now - scopes[i].rules[k].period), '+inf') end
  end
  reply[#reply + 1] = answer
  if work > budget then break end
end
endRow()
reply[2] = anybody and near() and 1 or 0
reply[3] = anybody and redis.call('HEXISTS', limits, 'rest') or 0
return reply
