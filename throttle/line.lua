-- One visit to the lines of a user: everything that has to branch. The grant
-- of a first visit does not come here; claim.go has it.
--
-- KEYS  reserved, beyond; for the general scope: sent, booked; for the category's: sent, booked, line
-- ARGV  op, member, ID, claim, 1 when nobody waited at the claim, wait, horizon, keep, life,
--       slack, brief, steps, waking, reach, how many may wait or 0, 1 for one that comes back,
--       then for each scope 0 for none, 1, or 2 for an exempt one, and if not 0: margin, number
--       of rules, {n, period}…
-- Instants and periods are in µs of this server's clock.
--
-- Own entries are taken out first, so that no count holds them, and put back
-- where the decision leaves them. "Ahead" of a newcomer is who was sent and who
-- waits; of a job at its slot, only who was sent: its slot was reserved.

local op, member, id = ARGV[1], ARGV[2], ARGV[3]
local claim, alone = tonumber(ARGV[4]), ARGV[5] == '1'
local wait, horizon = tonumber(ARGV[6]), tonumber(ARGV[7])
local keep, life = tonumber(ARGV[8]), tonumber(ARGV[9])
local slack, brief, steps, waking = tonumber(ARGV[10]), tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
local reach = tonumber(ARGV[14])
local most, back = tonumber(ARGV[15]), ARGV[16] == '1'

local reserved, beyond, key, arg = KEYS[1], KEYS[2], 2, 16
local function nextkey() key = key + 1; return KEYS[key] end
local function nextarg() arg = arg + 1; return tonumber(ARGV[arg]) end

local function scope(names)
  local kind = nextarg()
  if kind == 0 then return nil end
  local s = {exempt = kind == 2, free = true, margin = nextarg(), rules = {}}
  for i = 1, nextarg() do
    s.rules[i] = {n = nextarg(), period = nextarg()}
    if s.rules[i].period > 0 then s.free = false end
  end
  for _, name in ipairs(names) do s[name] = nextkey() end
  return s
end
local all = scope({'sent', 'booked'})
local cat = scope({'sent', 'booked', 'line'})

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local max = math.max
local function text(instant) return string.format('%.0f', instant) end

-- score answers the entry with that rank from the newest, or nil.
local function score(set, rank)
  return tonumber(redis.call('ZREVRANGE', set, rank, rank, 'WITHSCORES')[2])
end

-- newest answers the n-th newest entry of the union of the sets, or nil, and
-- which set it is in; of those up to an instant, if it is given. It goes from the
-- newest by runs of one set, of which there are few.
local function newest(sets, n, upto)
  local rank, head = {}, {}
  for i, set in ipairs(sets) do
    rank[i] = upto and redis.call('ZCOUNT', set, '(' .. text(upto), '+inf') or 0
    if #sets == 1 then return score(set, rank[i] + n - 1), 1 end
    head[i] = score(set, rank[i])
  end
  while true do
    local first, second
    for i = 1, #sets do
      if head[i] and (not first or head[i] > head[first]) then
        first, second = i, first
      elseif head[i] and (not second or head[i] > head[second]) then
        second = i
      end
    end
    if not first then return nil end
    local run = n
    if second then
      run = max(1, redis.call('ZCOUNT', sets[first], '(' .. text(head[second]), '+inf') - rank[first])
    end
    if n <= run then return score(sets[first], rank[first] + n - 1), first end
    n = n - run
    rank[first] = rank[first] + run
    head[first] = score(sets[first], rank[first])
  end
end

-- after answers when the rules allow an admission after the n-th newest entry of
-- the sets, or nil. The first set holds those sent. The others hold those who
-- wait, each of whom may come a hair late: the margin is for them.
local function after(sets, n, period, margin)
  if period + margin == 0 then return nil end
  local entry, set = newest(sets, n)
  if not entry or period == 0 and set == 1 then return nil end
  return entry + period + (set > 1 and margin or 0)
end

-- behind answers the first instant from that one on at which the rules allow
-- an admission after the sets' entries, save the newest skip of them, and the
-- rule that sets it.
local function behind(s, sets, from, margin, skip)
  local instant, rule = from, 0
  for i, r in ipairs(s.rules) do
    local free = after(sets, r.n + (skip or 0), r.period, margin)
    if free and free > instant then instant, rule = free, i end
  end
  return instant, rule
end

-- count answers how many of the sets' entries come after the instant, or at it
-- when it is inclusive.
local function count(sets, instant, inclusive)
  local n, from = 0, (inclusive and '' or '(') .. text(instant)
  for _, set in ipairs(sets) do n = n + redis.call('ZCOUNT', set, from, '+inf') end
  return n
end

-- walk answers a walk over the entries of the sets: entry 1 is the first after
-- the instant, entry 0 the last up to it. Each is read once, when it is asked for.
-- The sets may change only by what is entered too.
local function walk(sets, from)
  local w = {sets = sets, from = from, rank = {}, page = {}, score = {}, waits = {}, read = 0, passed = 0, before = 0}
  for i, set in ipairs(sets) do
    w.rank[i], w.page[i] = redis.call('ZCOUNT', set, '-inf', text(from)), {at = 2}
    w.before = w.before + w.rank[i]
  end
  return w
end

-- oldest takes the oldest entry that the walk has not come to, and answers it
-- and which set it is in, or nil.
local page = 64
local function oldest(w)
  local first, instant
  for i, set in ipairs(w.sets) do
    local p = w.page[i]
    if p and not p[p.at] then
      p = redis.call('ZRANGE', set, w.rank[i], w.rank[i] + page - 1, 'WITHSCORES')
      w.rank[i], p.at, p.head = w.rank[i] + #p / 2, 2, tonumber(p[2])
      if #p == 0 then p = false end
      w.page[i] = p
    end
    local head = p and p.head
    if head and (not first or head <= instant) then first, instant = i, head end
  end
  if first then
    local p = w.page[first]
    p.at = p.at + 2
    p.head = p[p.at] and tonumber(p[p.at])
  end
  return instant, first
end

-- fill reads a page of what follows that instant, up to where the walk began.
local function fill(w, instant)
  local following, index = walk(w.sets, instant), 1
  for _, set in ipairs(w.sets) do index = index - redis.call('ZCOUNT', set, '(' .. text(instant), text(w.from)) end
  for i = index, math.min(index + page - 1, 0) do
    local score, set = oldest(following)
    if w.score[i] == nil then w.score[i], w.waits[i] = score, set > 1 end
  end
end

-- entry answers the walk's entry with that index, or nil, and whether it is of
-- one who waits.
local function entry(w, index)
  local set
  while index > w.read do
    if w.over then return nil end
    local instant
    instant, set = oldest(w)
    if not instant then
      w.over = true
      return nil
    end
    w.read = w.read + 1
    w.score[w.read], w.waits[w.read] = instant, set > 1
  end
  if index <= -w.before then return nil end
  if w.score[index] == nil then
    w.score[index], set = newest(w.sets, 1 - index, w.from)
    w.score[index], w.waits[index] = w.score[index] or false, (set or 1) > 1
    if w.score[index] and w.score[index - 1] and w.score[index - 2] then fill(w, w.score[index]) end -- one after another
  end
  return w.score[index] or nil, w.waits[index]
end

-- pass goes past the walk's entries up to the instant, which is not before the
-- one that it began at.
local function pass(w, instant)
  while w.passed > 0 and w.score[w.passed] > instant do w.passed = w.passed - 1 end
  while (entry(w, w.passed + 1) or math.huge) <= instant do w.passed = w.passed + 1 end
end

-- enter adds one who waits, after the instant that the walk began at.
local function enter(w, instant)
  pass(w, instant)
  local index = w.passed + 1
  while index > 1 and w.score[index - 1] == instant do index = index - 1 end
  table.insert(w.score, index, instant)
  table.insert(w.waits, index, true)
  w.read = w.read + 1
end

-- clash answers when the window is over that forbids an admission among the
-- walk's entries at the instant, and the rule whose window it is; or nil. Of the
-- windows of n + 1 that would hold the new one, each must span the period.
local function clash(s, w, instant, margin)
  pass(w, instant)
  local here = w.passed
  for i, r in ipairs(s.rules) do
    for later = 0, r.period + margin > 0 and r.n or -1 do
      local last, first, lastwaits, firstwaits = instant, instant, false, false
      if later > 0 then
        last, lastwaits = entry(w, here + later)
        if not last or last >= instant + r.period + margin then break end
      end
      if later < r.n then first, firstwaits = entry(w, here + later - r.n + 1) end
      local period = r.period
      if lastwaits or firstwaits then period = period + margin end
      if first and last - first < period then
        -- these n are too close together for one more among them
        if later == r.n then first = entry(w, here + 1) end
        return first + period, i
      end
    end
  end
end

-- fit answers the first instant from that one on at which the rules allow an
-- admission among the walk's entries, as far as it searches: for some steps, and
-- up to the instant, if it is given, from which on it is nobody's concern.
local function fit(s, w, from, margin, upto)
  local instant, rule = from, 0
  for _ = 1, steps do
    if upto and instant >= upto then break end
    local over, i = clash(s, w, instant, margin)
    if not over then break end
    instant, rule = over, i
  end
  return instant, rule
end

-- live has the set expire when its last entry is out of every window.
local function live(set)
  local last = score(set, 0)
  if last then
    redis.call('PEXPIRE', set, text(math.ceil((life + max(0, last - now)) / 1000)))
  end
end

local function put(set, instant, name)
  redis.call('ZADD', set, text(instant), name)
  live(set)
end

-- many makes a call with many arguments as a few: unpack takes so many only.
local function many(command, key, list)
  for i = 1, #list, 2000 do redis.call(command, key, unpack(list, i, math.min(i + 1999, #list))) end
end

-- scores answers the names' scores in the set, false for one that is not there.
local function scores(set, names)
  local all = {}
  for i = 1, #names, 2000 do
    local some = redis.call('ZMSCORE', set, unpack(names, i, math.min(i + 1999, #names)))
    for k = 1, math.min(2000, #names - i + 1) do all[i + k - 1] = some[k] end
  end
  return all
end

-- taken is a walk over all that takes a place among the general limits.
local function taken(from) return walk({all.sent, all.booked, reserved}, from) end

-- any says whether the set has entries.
local function any(set) return redis.call('EXISTS', set) == 1 end

-- first answers the earliest instant for a line whose predecessors are in ahead.
local function first(ahead)
  local instant = now
  for _, set in ipairs(ahead) do instant = max(instant, score(set, 0) or 0) end
  return instant
end

-- mirrored reports whether the entry with that rank of the category's part of
-- booked has its slot there.
local function mirrored(rank)
  local entry = redis.call('ZRANGE', cat.booked, rank, rank, 'WITHSCORES')
  return not entry[1] or entry[2] == redis.call('ZSCORE', all.booked, entry[1])
end

-- mirror gives the category's part of booked the slots that its entries have
-- there. Requests of other categories move them: who comes forward for a cancel
-- is among the first, else all of them move.
local function mirror()
  if not all or not cat or mirrored(-1) and mirrored(0) then return end
  local names = redis.call('ZRANGE', cat.booked, 0, -1)
  local slots, gone, there = scores(all.booked, names), {}, {}
  for i, name in ipairs(names) do
    if slots[i] then
      there[#there + 1] = slots[i]
      there[#there + 1] = name
    else
      gone[#gone + 1] = name
    end
  end
  many('ZREM', cat.booked, gone)
  many('ZADD', cat.booked, there)
  live(cat.booked)
end

-- shift gives the line's entries the earliest slots after those of the sets
-- ahead, in the order they have, and tells who has come forward. Who may come
-- now and is expected already keeps the slot. Who comes forward has to be woken
-- first, and gets no slot sooner than that takes: who is behind, and awake, would
-- else be granted a slot ahead that leaves no room for it. Where places are
-- reserved, each slot is one that the general limits have room for.
--
-- A cancel may come at any time and from anybody: it moves the first of the line
-- only, and none of them back. The others have gained nothing when their turn comes.
local partial = op == 'cancel' or op == 'leave'
local lead = partial and 0 or math.min(wait, waking)
local function shift(s, line, ahead, moved)
  redis.call('ZREMRANGEBYSCORE', line, '-inf', text(now - keep)) -- nobody comes for them
  if s == all and cat then redis.call('ZREMRANGEBYSCORE', cat.booked, '-inf', text(now - keep)) end
  local among = s == all and any(reserved)
  local entries = redis.call('ZRANGE', line, 0, partial and reach - 1 or -1, 'WITHSCORES')
  local names = {}
  for i = 1, #entries, 2 do names[#names + 1] = entries[i] end
  if among then many('ZREM', line, names) end
  local places, slots, held, changed, which = {}, {}, {}, {}, s == all and 1 or 2
  if s == cat and any(reserved) then
    places = scores(reserved, names)
    many('ZREM', reserved, names)
  end
  local general = all and (among or s == cat) and entries[1] and taken(math.min(now, entries[2] - 1))
  for i = 1, #entries, 2 do
    local name, old, k = entries[i], tonumber(entries[i + 1]), #slots
    local slot = k == 0 and first(ahead) or max(now, slots[k] + s.margin)
    for _, r in ipairs(s.rules) do
      local free
      if r.n <= k then free = slots[k - r.n + 1] + r.period + s.margin
      else free = after(ahead, r.n - k, r.period, s.margin) end
      if free and free > slot then slot = free end
    end
    if name ~= id then slot = max(slot, math.min(old, now + lead)) end
    local reserves = among or all and places[k + 1]
    if reserves then slot = fit(all, general, slot, all.margin, partial and old) end
    if partial then slot = math.min(slot, old) end
    if slot <= now and old <= now then slot = old end
    if reserves then enter(general, slot) end
    slots[k + 1] = slot
    local changes, place = among or slot ~= old, places[k + 1]
    local at = (changes or place) and text(slot)
    if place then
      local h = #held
      held[h + 1], held[h + 2] = at, name
    end
    if changes then
      local c = #changed
      changed[c + 1], changed[c + 2] = at, name
    end
    if slot < old - slack and name ~= id then
      local m = #moved
      moved[m + 1], moved[m + 2], moved[m + 3] = name, at, which
    end
  end
  -- now that the walk is over
  many('ZADD', reserved, held)
  many('ZADD', line, changed)
  live(line)
  if s == all then mirror() else live(reserved) end
end

-- pull shifts a line whose head has a later slot than it needs: a limit was
-- raised, or somebody ahead has given up. It looks at one instant: what the
-- general limits have room for only later is found by a shift.
local function pull(s, line, ahead, moved)
  local head = tonumber(redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')[2])
  if not head or head <= now + lead + slack then return end
  local instant = behind(s, ahead, first(ahead), s.margin)
  if head <= instant + slack then return end
  if not all and any(reserved) then return end -- by limits that this request does not have
  if all and clash(all, walk({all.sent, reserved}, instant), instant, all.margin) then return end
  if all and s == cat and clash(all, walk({all.booked}, instant), instant, all.margin) then return end
  shift(s, line, ahead, moved)
end

-- The general line's predecessors, and the category line's.
local allahead, catahead = all and {all.sent}, cat and {cat.sent, cat.booked}
local moved = {}

-- own entries: what they were, and taking them out
local sent = all and redis.call('ZSCORE', all.sent, member) or cat and redis.call('ZSCORE', cat.sent, member)
sent = tonumber(sent or nil)
local booked, lined

local function unsend()
  if all then redis.call('ZREM', all.sent, member) end
  if cat then redis.call('ZREM', cat.sent, member) end
end
local function unline()
  if booked then redis.call('ZREM', all.booked, id) end
  if booked and cat then redis.call('ZREM', cat.booked, id) end
  if lined then redis.call('ZREM', cat.line, id) end
  redis.call('ZREM', reserved, id)
end
local function send(instant)
  if all then put(all.sent, instant, member) end
  if cat then put(cat.sent, instant, member) end
end
local function wait_in(place, slot)
  if place == 'line' then
    if all then put(reserved, slot, id) end
    return put(cat.line, slot, id)
  end
  put(all.booked, slot, id)
  if cat then put(cat.booked, slot, id) end
end

redis.call('ZREMRANGEBYSCORE', reserved, '-inf', text(now - keep))
mirror()
if sent then unsend() end
local denied = sent == claim and claim > 0
if denied then sent = nil end
if op == 'acquire' then
  -- who has come to wait since the claim may have counted it
  local close = denied and alone and shift or pull
  if all then close(all, all.booked, allahead, moved) end
  if cat then close(cat, cat.line, catahead, moved) end
end
booked = all and tonumber(redis.call('ZSCORE', all.booked, id) or nil)
lined = cat and tonumber(redis.call('ZSCORE', cat.line, id) or nil)
unline()
if booked and booked <= now - keep then booked = nil end -- forgotten by its line
if lined and lined <= now - keep then lined = nil end
local held = booked or lined or 0 -- the slot it comes for
-- What stands in sent may go out at its instant, or has. It gives way only to an
-- admission now, and not before it: what was let through since counted on it.
if sent then wait = 0 end

-- full answers nil when there is room for one more who waits. Otherwise it
-- answers when a newcomer is to come back: behind the line, and behind those that
-- there was no room for before, one mean distance after another. While any of
-- these is to come, half the room is theirs.
local function full()
  if most == 0 then return nil end
  local last = tonumber(redis.call('GET', beyond) or nil)
  if last and last <= now then last = nil end
  local room = (last and not back) and most / 2 or most
  if redis.call('ZCARD', reserved) + redis.call('ZCARD', all and all.booked or cat.line) < room then return nil end
  local instant, distance = max(now, last or 0), 0
  for _, s in ipairs({all or cat, all and cat}) do
    instant = max(instant, score(s.line or s.booked, 0) or 0)
    for _, r in ipairs(s.rules) do distance = max(distance, math.ceil(r.period / r.n) + s.margin) end
  end
  return instant + distance
end

-- decide answers status, instant, scope and rule, and where the job is to wait:
-- 'booked' or 'line'. Status 1 is granted, 2 deferred, 3 refused, 4 deferred
-- without a slot. A sixth value says that the instant is later than the job's
-- slot, so that its line has to follow.
local function decide()
  local slot = booked or lined or sent
  local place = booked and 'booked' or lined and 'line'
  if place and slot > now + wait then
    local s, sets, which = all, all and {all.sent, all.booked}, 1
    if place == 'line' then s, sets, which = cat, {cat.sent, cat.booked, cat.line}, 2 end
    local _, rule = behind(s, sets, 0, 0, count(sets, slot, true))
    return 2, slot, which, rule, place
  end

  -- ask has each scope answer alone, and then both agree on one instant. Where
  -- it is a slot and not an admission now, those who wait get their margin.
  local a, arule, c, crule, instant, s, rule
  local places -- a walk over all that takes a place, which one from its line searches along
  local function ask(from, margin)
    local function general(from)
      local waiting = {all.sent, all.booked, reserved}
      if not slot then
        local free, r = behind(all, {all.sent, all.booked}, from, margin * all.margin)
        -- a claim would be granted now whatever is reserved
        if free <= now or not any(reserved) then return free, r end
        local place, p = fit(all, walk(waiting, free), free, margin * all.margin)
        if place > free then return place, p end
        return free, r
      end
      -- from its category's line it takes what the others leave free
      if place == 'line' then
        places = places or walk(waiting, from)
        return fit(all, places, from, margin * all.margin)
      end
      return fit(all, walk({all.sent}, from), from, 0)
    end
    local function category(from)
      if slot then return fit(cat, walk({cat.sent}, from), from, 0) end
      return behind(cat, {cat.sent, cat.booked, cat.line}, from, margin * cat.margin)
    end
    a, arule, c, crule = from, 0, from, 0
    if all then a, arule = general(from) end
    if cat then c, crule = category(from) end
    instant, s, rule = a, 1, arule
    if not all or c > a then instant, s, rule = c, 2, crule end
    if not (all and cat and slot) then return end
    repeat
      local before = instant
      local at, r = general(before)
      if at > instant then instant, s, rule = at, 1, r end
      at, r = category(instant)
      if at > instant then instant, s, rule = at, 2, r end
    until instant == before
  end

  local from = max(now, slot or 0, sent or 0)
  ask(from, 0)
  if slot and not place and instant ~= from then
    slot = nil -- the admission does not hold any more
    ask(from, 0)
  end
  if instant > now and instant ~= sent and place ~= 'booked' then ask(from, 1) end
  if instant <= now + wait or instant == sent then return 1, instant, s, rule end

  if not place then
    local later = full()
    if later then return later > now + horizon and 3 or 4, later, s, rule end
    place = 'booked'
    if not all or cat and (c > a or c > now and redis.call('EXISTS', cat.line) == 1) then place = 'line' end
  elseif place == 'booked' and cat and a <= now + wait and c > now + wait + brief then
    place = 'line'
    c, crule = behind(cat, {cat.sent, cat.line}, c, cat.margin)
  elseif place == 'line' and all and c <= now + wait and a > now + wait then
    place = 'booked'
  else
    return 2, instant, s, rule, place, true
  end
  instant, s, rule = a, 1, arule
  if place == 'line' then
    instant, s, rule = c, 2, crule
    if all and not booked then -- who leaves the general line takes others along first
      local from = max(a, c)
      local free, r = fit(all, taken(from), from, all.margin)
      if free > c then instant, s, rule = free, 1, max(r, arule) end
    end
  end
  if instant > now + horizon then return 3, instant, s, rule end
  return 2, instant, s, rule, place
end

local function shiftall(moved)
  if all then shift(all, all.booked, allahead, moved) end
end
local function shiftcat(moved)
  if cat then shift(cat, cat.line, catahead, moved) end
end

-- lift ends the waiting for limits that are there no more, and tells who waited.
-- Of an exempt category nobody waits for the general limits either.
local function lift(set, which, moved)
  local names = redis.call('ZRANGE', set, 0, -1)
  for _, name in ipairs(names) do
    moved[#moved + 1] = name
    moved[#moved + 1] = text(now)
    moved[#moved + 1] = which
  end
  redis.call('DEL', set)
  return names
end
local function liftall(moved)
  if cat and cat.free then
    many('ZREM', reserved, lift(cat.line, 2, moved))
  end
  if cat and cat.exempt then
    local names = lift(cat.booked, 2, moved)
    if all then many('ZREM', all.booked, names) end
  end
  if all and all.free then
    lift(all.booked, 1, moved)
    redis.call('DEL', reserved)
    if cat then redis.call('DEL', cat.booked) end
  end
end

-- follow moves those of the category who are booked behind one that has just
-- gone to the line, as far as the category's limits have them follow it.
local function follow()
  local entries = redis.call('ZRANGEBYSCORE', cat.booked, text(booked), '+inf', 'WITHSCORES')
  for i = 1, #entries, 2 do
    local name, old = entries[i], tonumber(entries[i + 1])
    local slot = behind(cat, {cat.sent, cat.line}, old, cat.margin)
    if slot <= old + brief then return end
    redis.call('ZREM', all.booked, name)
    redis.call('ZREM', cat.booked, name)
    put(reserved, slot, name)
    put(cat.line, slot, name)
  end
end

local status, instant, s, rule, place, late = 0, now, 0, 0

local function slot_of()
  if place == 'line' then return tonumber(redis.call('ZSCORE', cat.line, id)) end
  return tonumber(redis.call('ZSCORE', all.booked, id))
end

if op == 'acquire' then
  status, instant, s, rule, place, late = decide()
  if status == 1 then
    -- an admission ahead is moved by a hair, out of reach of the correction of
    -- a claim that may have left it
    if instant == sent then instant = instant + 1 end
    send(instant)
    for _, scope in ipairs({all or cat, all and cat}) do
      redis.call('ZREMRANGEBYSCORE', scope.sent, '-inf', text(now - keep))
    end
  else
    if sent then send(sent) end -- it may have gone out then
    if status == 4 then
      redis.call('SET', beyond, text(instant), 'PX', text(math.ceil((instant - now) / 1000)))
    end
    if status == 2 then
      -- a late one goes back to its place, and its whole line moves in order
      wait_in(place, late and (booked or lined) or instant)
      if late and place == 'line' then shiftcat(moved) elseif late then shiftall(moved) end
      if booked and place == 'line' then
        follow()
        shiftcat(moved)
      end
    end
  end
  if status == 2 then -- where the line has it now, but not before it is allowed
    if late and slot_of() < instant then wait_in(place, instant) end
    instant = slot_of()
    if instant > now + horizon then
      status, booked, lined = 3, place ~= 'line', place == 'line'
      unline()
    end
  end
elseif op == 'peek' then
  status, instant, s, rule = decide()
  if status == 2 and instant > now + horizon then status = 3 end
  if sent then send(sent) end
  if booked then wait_in('booked', booked) end
  if lined then wait_in('line', lined) end
elseif op == 'cancel' or op == 'leave' then -- own entries stay out, and those behind move up
  if op == 'leave' and sent then -- but an admission that was used counts
    send(sent)
    sent = nil
  end
  if sent or booked and count({all.booked}, booked, true) > 0 then shiftall(moved) end
  if cat and (sent or held > 0 and count({cat.line}, held, true) > 0) then shiftcat(moved) end
elseif op == 'reschedule' then -- the category's line is a call of its own
  liftall(moved)
  shiftall(moved)
else
  shiftcat(moved)
end

local reply = {status, now, instant, s, rule, held}
for _, field in ipairs(moved) do reply[#reply + 1] = field end
return reply
