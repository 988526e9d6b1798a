-- The waiting of one user's notifications: everything that has to branch. The grant of
-- a first visit does not come here while nobody waits; claim.go has it.
--
-- twin_test.go, model.go, place.go, replan.go and held.go are a reference in Go: the
-- functions have the same names, so that both can be read side by side. The script
-- reads what waits of the user once, decides on arrays, and writes what has changed. Most
-- who come need none of that: passes and behind read a few entries, however many wait.
--
-- What waits is kept in sorted sets:
--   booked     the slots of all that wait, named CATEGORY INSTANT
--   queue:CAT  the notifications that wait of the category, by the instant of acceptance
-- The k-th of a category's queue holds the category's k-th slot. Those of the queue
-- behind the last slot wait without one.
--
-- The hash limits is there while somebody waits. It has the limits by which slots were
-- given ("g" the general ones, "c"CAT a category's), when they changed last ("@"), and
-- whether somebody waits without a slot ("full"). With quiet hours it has what is closed by
-- them ("h" by the general ones, "q"CAT by a category's, FROM UPTO… in s), and by whose clocks
-- ("z", ACCEPTED ZONE).
--
-- KEYS     sent, booked, limits; of each of the categories: sent:CAT, queue:CAT
-- ARGV[1]  the request as JSON, see booking.go
-- Instants and periods are in µs of this server's clock. Limits are written
-- KIND MARGIN {N PERIOD}…, kind 2 is exempt; "" where the scope is none of the request's.
--
-- It returns now, 1 when a claim would be in vain, the IDs and slots of those that came
-- forward, for each notification status, instant, scope (1 the general, 2 the category's)
-- and rule (from 1) that let it be no earlier, the slot before, and for a report what each
-- rate's window holds; and the categories that it needs the keys of. Then it has decided
-- of none, or of the first ones. Behind these stands the zone of those who wait, where the
-- first one has to ask by that: then it has decided of none.

local ask = cjson.decode(ARGV[1])
local sentKey, bookedKey, limitsKey = KEYS[1], KEYS[2], KEYS[3]
local max, min = math.max, math.min
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local granted, deferred, refused, slotless = 1, 2, 3, 4

local function text(instant) return string.format('%.0f', instant) end

-- score returns the set's entry with that rank from the oldest, or nil.
local function score(set, rank)
  return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2])
end

-- newestBut returns the set's n-th newest entry but for the one at that instant, if any.
local function newestBut(own, set, n)
  local at = score(set, -n)
  if at and own and own >= at then return score(set, -n - 1) end
  return at
end

local function parse(words)
  local p, n = {rules = {}, exempt = false, unlimited = true, margin = 0}, nil
  for word in string.gmatch(words, '%d+') do
    local number = tonumber(word)
    if p.kind == nil then p.kind, p.exempt = number, number == 2
    elseif p.margin == 0 then p.margin = number
    elseif not n then n = number
    else
      p.rules[#p.rules + 1] = {n = n, period = number}
      if number > 0 then p.unlimited = false end
      n = nil
    end
  end
  p.words = (p.exempt or not p.unlimited) and words or '' -- limits that limit nothing are none
  return p
end

-- The request's scopes, the general one first; general and special are its limits.
local general, special = parse(ask.general), parse(ask.own)
local scopes = {}
if ask.general ~= '' then scopes[1] = {number = 1, policy = general, name = '', set = sentKey} end
if ask.own ~= '' then scopes[#scopes + 1] = {number = 2, policy = special, name = ask.categories[1], set = KEYS[4]} end

-- What is closed to the request by quiet hours, as it is written, and as a list: FROM, UPTO…
-- in µs.
local hours, closed = ask.ownQuiet or ask.quiet or '', {}
local function readList(written)
  local list = {}
  for second in string.gmatch(written, '%d+') do list[#list + 1] = second * 1000000 end
  return list
end
if hours ~= '' then closed = readList(hours) end

local function opened(list, at)
  for i = 1, #list, 2 do
    if at < list[i] then break end
    if at < list[i + 1] then return list[i + 1] end
  end
  return at
end

-- endOf returns when the first interval ends that is not over, or nil.
local function endOf(list)
  for i = 2, #list, 2 do
    if now < list[i] then return list[i] end
  end
end

-- admit enters the notification among those sent. Who was sent before the horizon goes.
local function admit(r, at)
  for _, s in ipairs(scopes) do
    redis.call('ZADD', s.set, text(at), r.member)
    redis.call('ZREMRANGEBYSCORE', s.set, '-inf', text(now - ask.keep))
    local ahead = max(at, score(s.set, -1)) - now
    redis.call('PEXPIRE', s.set, text(math.ceil((ask.life + max(0, ahead)) / 1000)))
  end
end

-- answer is what the script returns of a notification.
local function answer(status, at, scope, rule, held)
  local a = {status, at, scope, rule, held}
  for _, s in ipairs(ask.report and scopes or {}) do
    for i = 2, #s.policy.rules do
      a[#a + 1] = redis.call('ZCOUNT', s.set, '(' .. text(now - s.policy.rules[i].period), '+inf')
    end
  end
  return a
end

-- passes reports whether nobody waits, and the notification may go now by those sent.
local function passes(r)
  if redis.call('EXISTS', limitsKey) == 1 or not r.passes and opened(closed, now) > now then return false end
  for i, s in ipairs(scopes) do
    local own = tonumber(redis.call('ZSCORE', s.set, r.member) or nil)
    if i == 1 and own and own ~= ask.claim and own >= now then return false end
    for _, rule in ipairs(s.policy.rules) do
      local at = rule.period > 0 and newestBut(own, s.set, rule.n)
      if at and at + rule.period > now then return false end
    end
  end
  return true
end

if ask.op == 'acquire' and #ask.all == 1 and passes(ask.all[1]) then
  admit(ask.all[1], now)
  return {now, 0, {}, {answer(granted, now, 0, 0, 0)}, {}}
end

-- saidOf returns the instant that says whose zone it is, or nil of one that says nothing.
local function saidOf(r) return r.said and (r.said > 0 and r.said or now) end

-- The zone is that of the most recently accepted of those who wait that names one.
local zone, kept = {accepted = -1}, ask.zone and redis.call('HMGET', limitsKey, 'h', 'q' .. ask.categories[1], 'z') or {}
if kept[3] then
  local accepted, name = string.match(kept[3], '^(%d+) (.*)$')
  zone = {accepted = tonumber(accepted), written = kept[3]}
  if name ~= ask.zone and (saidOf(ask.all[1]) or -1) <= zone.accepted then return {now, 0, {}, {}, {}, name} end
end
local function zoning(r)
  local at = ask.zone and saidOf(r) or -1
  if at > zone.accepted then zone = {accepted = at, written = text(at) .. ' ' .. ask.zone, said = true} end
end

-- See model.go for what the constants mean.
local slack, flapping, waking, settling = 20000, 1000000, 1000000, 100000

-- live has a key of what waits live as long as its last entry may count.
local function live(key, last)
  local lives = math.ceil((ask.life + max(0, last - now)) / 1000)
  if lives > redis.call('PTTL', key) then redis.call('PEXPIRE', key, text(lives)) end
end

-- lineOf returns what behind goes by: the line's length and ends. It returns nil where
-- others wait than those of the category by its limits, or somebody is owed a slot.
local function lineOf()
  local queue = KEYS[5]
  local g, c, changed, full = unpack(redis.call('HMGET', limitsKey, 'g', 'c' .. ask.categories[1], '@', 'full'))
  local fields = 2 + (changed and 1 or 0) + (full and 1 or 0)
  for _, given in ipairs(kept) do fields = fields + (given and 1 or 0) end
  if g ~= general.words or c ~= special.words or redis.call('HLEN', limitsKey) ~= fields then return end
  if (kept[1] or nil) ~= ask.quiet or (kept[2] or nil) ~= ask.ownQuiet then return end
  local held, waiting = redis.call('ZCARD', bookedKey), redis.call('ZCARD', queue)
  if held == 0 or held > waiting or held < ask.most and held < waiting then return end
  local first, last, order = score(bookedKey, 0), score(bookedKey, -1), score(queue, -1)
  if first <= now - ask.keep then return end
  return {held = held, waiting = waiting, first = first, last = last, order = order, full = full, lives = {}}
end

-- behind has a newcomer wait behind all others, as acquire would, without reading them:
-- they are all of its category and wait by its limits, so that nobody moves, and its place
-- is behind every slot and every admission. Then it is the last of each window that it is
-- in, and of a rule of n in a period only the n-th newest entry counts: one of the slots
-- where there are n, one of the admissions otherwise. Where it is not so, or it may be let
-- through, this changes nothing and returns nil.
local function behind(line, r)
  local held, last, queue = line.held, line.last, KEYS[5]
  local order = r.accepted > 0 and r.accepted or max(now, line.order + 1)
  if order <= line.order or last < now + max(settling, r.wait) or r.passes and closed[1] then return end
  -- what place, full and binding would return, and whether a claim of its own is there
  local fresh, back, latest, scope, binds, denied = last + 1, 0, 0, 0, 0, false
  for i = #scopes, 1, -1 do
    local s = scopes[i]
    local own = tonumber(redis.call('ZSCORE', s.set, r.member) or nil)
    if i == 1 and own and (own ~= ask.claim or ask.alone) then return end
    denied = denied or own
    local lastSent = newestBut(own, s.set, 1) or 0
    for k, rule in ipairs(s.policy.rules) do
      local waits = rule.n <= held
      local at = waits and score(bookedKey, -rule.n) or newestBut(own, s.set, rule.n - held)
      if lastSent > (waits and at or line.first) then return end -- another one may be the n-th
      if at then
        fresh = max(fresh, at + rule.period + (waits and s.policy.margin or 0))
        if rule.period > 0 and at + rule.period >= latest then
          latest, scope, binds = at + rule.period, s.number, k
        end
      end
      back = max(back, (math.ceil(rule.period / rule.n) + s.policy.margin) * (line.waiting - held + rule.n))
    end
  end
  local status, at, room = deferred, opened(closed, fresh), held < ask.most
  if not room then status, at = slotless, opened(closed, last + back) end
  if at > now + r.horizon then
    status = refused -- which has taken no slot
  else
    redis.call('ZADD', queue, text(order), r.id)
    line.order, line.waiting, line.lives[queue] = order, line.waiting + 1, at
    if room then
      local member = ask.categories[1] .. ' ' .. text(at)
      redis.call('ZADD', bookedKey, text(at), member)
      line.last, line.held, line.lives[bookedKey], line.lives[limitsKey] = at, held + 1, at, at
    elseif not line.full then
      line.full = redis.call('HSET', limitsKey, 'full', '1')
    end
  end
  for _, s in ipairs(denied and scopes or {}) do redis.call('ZREM', s.set, r.member) end
  return answer(status, at, scope, binds, 0)
end

local answers, line = {}, nil
for i, r in ipairs(ask.op == 'acquire' and ask.all or {}) do
  if redis.call('ZRANK', KEYS[5], r.id) then break end -- it is in the line
  line = line or lineOf()
  answers[i] = line and behind(line, r)
  if not answers[i] then break end
  zoning(r)
end
if answers[1] and zone.said then redis.call('HSET', limitsKey, 'z', zone.written) end
for key, last in pairs(line and line.lives or {}) do live(key, last) end
if #answers == #ask.all then return {now, 1, {}, answers, {}} end

-- What follows has to look at those who wait.

-- upTo returns how many of the instants are not later than that one.
local function upTo(instants, at)
  local low, high = 0, #instants
  if high == 0 or instants[high] <= at then return high end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if instants[middle + 1] <= at then low = middle + 1 else high = middle end
  end
  return low
end

local function insert(instants, at) table.insert(instants, upTo(instants, at) + 1, at) end
local function remove(instants, at)
  local i = upTo(instants, at)
  if instants[i] == at then table.remove(instants, i) end
end

-- add enters one who waits into a view; of an instant those who wait come last.
local function add(v, at)
  if v.closed then return end
  local i = upTo(v.at, at) + 1
  table.insert(v.at, i, at)
  table.insert(v.waits, i, true)
end

-- view is a scope's limits and the entries that they are held against, in order: those
-- sent, and those slots. Of those before that instant it is enough that the longest rule
-- counts.
local function view(policy, number, sent, slots, from)
  local v = {policy = policy, rules = policy.rules, number = number, sent = sent, at = {}, waits = {}}
  local longest = 0
  for _, r in ipairs(policy.rules) do longest = max(longest, r.n) end
  local i, k = max(1, upTo(sent, from - 1) - longest + 1), max(1, upTo(slots, from - 1) - longest + 1)
  for n = 1, #sent - i + #slots - k + 2 do
    if k > #slots or i <= #sent and sent[i] <= slots[k] then
      v.at[n], v.waits[n], i = sent[i], false, i + 1
    else
      v.at[n], v.waits[n], k = slots[k], true, k + 1
    end
  end
  return v
end

-- night adds the list, as it is written, to the views that slots are given by.
local nights = {}
local function night(views, written)
  if written == '' then return views end
  nights[written] = nights[written] or
    {closed = written == hours and closed or readList(written), policy = {margin = 0}, rules = {}, sent = {}, at = {}}
  views[#views + 1] = nights[written]
  return views
end

local function clash(v, at, margin)
  if v.closed then
    local open = opened(v.closed, at)
    return open > at and open or nil
  end
  local marks, waits, before = v.at, v.waits, upTo(v.at, at)
  local count = #marks
  for _, r in ipairs(v.rules) do
    local n, period, span = r.n, r.period, r.period + margin
    local later = 0
    if before < count and marks[before + 1] < at + span then
      later = min(n, upTo(marks, at + span - 1) - before)
    end
    for later = later, max(0, n - before), -1 do
      local i = before + later - n + 1 -- the window's first, but for the new one
      local first, last, firstWaits, lastWaits = at, at, false, false
      if later < n then first, firstWaits = marks[i], waits[i] end
      if later > 0 then last, lastWaits = marks[before + later], waits[before + later] end
      if last - first < ((firstWaits or lastWaits) and span or period) then
        return marks[i] + (waits[i] and span or period)
      end
      if at - first >= span then break end -- so do those that begin before
    end
  end
end

local function place(views, from, margins)
  local at, agreed, i = from, 0, 1
  while agreed < #views do
    local over = clash(views[i], at, margins and views[i].policy.margin or 0)
    if over then at, agreed = over, 0 else agreed, i = agreed + 1, i % #views + 1 end
  end
  return at
end

local function binding(views, at)
  local latest, scope, rule = 0, 0, 0
  for _, v in ipairs(views) do
    local before, last = upTo(v.at, at - 1), v.sent[#v.sent]
    for i, r in ipairs(v.rules) do
      local e = r.period > 0 and v.at[before - r.n + 1]
      if last and last >= at and r.period > 0 and v.sent[#v.sent - r.n + 1] == at - r.period then e = at - r.period end
      if e and e + r.period >= latest then latest, scope, rule = e + r.period, v.number, i end
    end
  end
  return scope, rule
end

-- The model m is what is known of the user:
--   admitted  of those sent the newest, under the general limits
--   general   the general limits by which slots were given
--   classes   the categories of which some wait, and the request's, which is m.class:
--             policy, slots, and where their keys are at hand admitted, and how many wait
--   quiet     the general list, and of a class its own, as they are written; a class has none
--             where the general one holds
--   changed   when limits changed last
--   full      somebody waits without a slot
-- and of the call: all, the slots of all classes; views, those of the request's scopes;
-- moved, who came forward; changes, the slots that are new, or false where they are gone.

-- read reads the model.
local function read()
  local m = {classes = {}, moved = {}, changes = {}, fields = {}, all = {}}
  local fields = redis.call('HGETALL', limitsKey)
  for i = 1, #fields, 2 do
    m.fields[fields[i]] = fields[i + 1]
    local name = string.match(fields[i], '^c(.*)')
    if name then m.classes[name] = {name = name, policy = parse(fields[i + 1]), slots = {}} end
  end
  for name, c in pairs(m.classes) do c.quiet = m.fields['q' .. name] end
  m.changed, m.full = tonumber(m.fields['@'] or nil) or -flapping, m.fields.full ~= nil
  local all, classes, sub, number, held = m.all, m.classes, string.sub, tonumber, 0
  for _, member in ipairs(redis.call('ZRANGE', bookedKey, 0, -1)) do
    local at, c = number(sub(member, -16)), classes[sub(member, 1, -18)]
    if at and c then
      local slots = c.slots
      held = held + 1
      all[held], slots[#slots + 1] = at, at
    else m.changes[member] = false end
  end
  for i, name in ipairs(ask.categories) do
    local c = m.classes[name] or {name = name, policy = special, slots = {}}
    c.sent, c.queue = KEYS[2 * i + 2], KEYS[2 * i + 3]
    if i == 1 then m.class, m.classes[name] = c, c end
  end
  m.general, m.quiet, m.class.waiting = parse(m.fields.g or ''), m.fields.h or '', redis.call('ZCARD', m.class.queue)
  return m
end

-- newest reads admissions, as many as the limits count.
local function newest(set, limits)
  local n, instants = 0, {}
  for _, policy in ipairs(limits) do
    for _, r in ipairs(policy.rules) do n = max(n, r.n) end
  end
  n = n + #ask.all + redis.call('ZCOUNT', set, '(' .. text(now), '+inf') -- some may be taken out
  local list = redis.call('ZRANGE', set, -n, -1, 'WITHSCORES')
  for i = 2, #list, 2 do instants[i / 2] = tonumber(list[i]) end
  return instants
end

-- put and take note that the class has a slot more or less.
local function put(m, c, at)
  m.changes[c.name .. ' ' .. text(at)] = at
  if m.all then insert(m.all, at) end
end
local function take(m, c, at)
  m.changes[c.name .. ' ' .. text(at)] = false
  if m.all then remove(m.all, at) end
  m.views = nil
end

-- crop drops the class's slots that are nobody's, as its queue is lost.
local function crop(m, c)
  for _ = c.waiting + 1, #c.slots do take(m, c, table.remove(c.slots)) end
end

-- others has all classes at hand. Nothing may have been written before.
local function others(m)
  local lacks = {}
  for name, c in pairs(m.classes) do
    if c ~= m.class then lacks[#lacks + 1] = name end
  end
  for _, name in ipairs(lacks) do
    local c = m.classes[name]
    if not c.queue then error({lacks = lacks}) end
    if not c.waiting then
      c.waiting, c.admitted = redis.call('ZCARD', c.queue), newest(c.sent, {c.policy})
      crop(m, c)
    end
  end
end

-- inOrder are the classes by their names.
local function inOrder(m)
  local list = {}
  for _, c in pairs(m.classes) do list[#list + 1] = c end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- all returns the slots of all classes, in order.
local function all(m)
  if m.all then return m.all end
  m.all = {}
  for _, c in pairs(m.classes) do
    for _, at in ipairs(c.slots) do m.all[#m.all + 1] = at end
  end
  table.sort(m.all)
  return m.all
end

local function admittedOf(m, s) return (s.number == 1 and m or m.class).admitted end
local function slotsOf(m, s) return s.number == 1 and all(m) or m.class.slots end

-- limits are the views of the request's scopes, the category's first, from that instant on.
local function limits(m, from, law)
  local list = {from = from}
  for i = #scopes, 1, -1 do
    local s = scopes[i]
    list[#list + 1] = view(s.policy, s.number, admittedOf(m, s), law and {} or slotsOf(m, s), from)
  end
  return list
end

-- views are those of the request's limits, and its quiet hours.
local function views(m, from, law)
  if m.views and not law and m.views.from <= from then return m.views end
  local list = night(limits(m, from, law), hours)
  if not law then m.views = list end
  return list
end

local function quietOf(m, c) return c.quiet or m.quiet end

-- limitsOf are the views that the class's slots are given by, with the slots that they
-- have so far.
local free = parse('')
local function limitsOf(m, c, common)
  if c.policy.unlimited then return night({common}, quietOf(m, c)) end
  return night({view(c.policy, 2, c.admitted, c.slots, now), common}, quietOf(m, c))
end
local function commonOf(m) return view(m.general.unlimited and free or m.general, 1, m.admitted, all(m), now) end

-- trim drops the slots that nobody has come for within the horizon, with their holders.
local function trim(m)
  local old = now - ask.keep
  for _, c in pairs(m.classes) do
    if c ~= m.class and (c.slots[1] or now) <= old then others(m) end
  end
  for _, c in pairs(m.classes) do
    local dead = upTo(c.slots, old)
    if dead > 0 then
      redis.call('ZREMRANGEBYRANK', c.queue, 0, dead - 1)
      c.waiting = max(0, c.waiting - dead)
      for _ = 1, dead do take(m, c, table.remove(c.slots, 1)) end
    end
  end
  crop(m, m.class)
end

-- visit begins the work for a notification, whose own admissions are taken out. One that
-- is denied it never had.
local function visit(m, r)
  local v = {r = r, wait = r.wait, lead = max(settling, min(r.wait, waking)), taken = {}}
  m.full = m.full or m.class.waiting > #m.class.slots
  if m.class.waiting == 0 then m.class.policy, m.class.quiet = special, ask.ownQuiet end
  if #all(m) == 0 and not m.full then
    m.general, m.quiet, m.changed, zone = general, ask.quiet or '', -flapping, {accepted = -1}
  end
  for i, s in ipairs(scopes) do
    local own = tonumber(redis.call('ZSCORE', s.set, r.member) or nil)
    if own then
      remove(admittedOf(m, s), own)
      v.taken[#v.taken + 1] = {admittedOf(m, s), own}
      m.views = nil
    end
    if i == 1 then v.denied, v.own = own == ask.claim, own end
  end
  if v.denied then v.own = nil end
  if v.own then v.wait = 0 end -- it may have gone out: it gives way only to an admission now
  return v
end

-- finish puts the notification's admission where it belongs, and a new one into at.
local function finish(m, v, at)
  if at then
    admit(v.r, at)
    for _, s in ipairs(scopes) do insert(admittedOf(m, s), at) end
  elseif v.own then
    for _, t in ipairs(v.taken) do insert(t[1], t[2]) end
  elseif v.taken[1] then
    for _, s in ipairs(scopes) do redis.call('ZREM', s.set, v.r.member) end
  end
  if at or v.taken[1] then m.views = nil end
end

-- orderOf returns a newcomer's place in the queue, and how many were accepted before it.
local function orderOf(m, r)
  local c = m.class
  local last = c.waiting > 0 and score(c.queue, -1) or 0
  local order = r.accepted > 0 and r.accepted or max(now, last + 1)
  if order > last then return order, c.waiting end
  local rank = redis.call('ZCOUNT', c.queue, '-inf', '(' .. text(order))
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', c.queue, text(order), text(order))) do
    if id < r.id then rank = rank + 1 end
  end
  return order, rank
end

-- full returns when one that there is no slot for is to come back: behind all that have
-- one, and those before it, but not before its turn: it is woken then.
local function full(m, rank)
  local at, behind, before = now, 0, rank - #m.class.slots
  for _, s in ipairs(scopes) do
    local slots = slotsOf(m, s)
    at = max(at, slots[#slots] or 0)
    for _, r in ipairs(s.policy.rules) do
      behind = max(behind, (math.ceil(r.period / r.n) + s.policy.margin) * (before + r.n))
    end
  end
  return opened(closed, at + behind)
end

-- decide returns what becomes of the notification, and changes nothing:
--   status, at   see the script's answer
--   joins        it has no slot yet: fresh is the one that its category gets for it, if
--                any, order and rank its place in the queue
--   late         it came for its slot, and those sent do not let it go before at
local function decide(m, v)
  if v.own and not v.slot then
    local at = place(views(m, now, true), max(now, v.own), false)
    if at <= now or at == v.own then return {status = granted, at = at} end
  end
  local w = {status = deferred, at = v.slot, joins = not v.slot}
  if w.joins then
    local c, from = m.class, now
    for _, s in ipairs(scopes) do
      local sent = admittedOf(m, s)
      for _, r in ipairs(s.policy.rules) do
        if r.period > 0 then from = max(from, (sent[#sent - r.n + 1] or 0) + r.period) end
      end
    end
    from = max(from, (c.slots[#c.slots] or 0) + 1)
    local around = views(m, from)
    w.fresh = place(around, from, false)
    if w.fresh > now then w.fresh = place(around, w.fresh, true) end
    if v.r.accepted > 0 and w.fresh > now and w.fresh < now + settling then
      local settled = place(around, now + settling, true)
      if settled <= now + min(2 * settling, v.r.horizon) then w.fresh = settled end
    end
    if v.rank then w.rank = v.rank else w.order, w.rank = orderOf(m, v.r) end
    if w.rank == #c.slots and w.fresh <= now + (v.r.accepted > 0 and 0 or v.wait) then
      return {status = granted, at = w.fresh}
    end
    local room = #all(m) < ask.most
    w.at = c.slots[w.rank + 1] or w.fresh -- others who were accepted later wait behind it
    if w.rank > #c.slots or w.rank == #c.slots and not room then
      w.status, w.at = slotless, full(m, w.rank)
    end
    if not room then w.fresh = nil end
    if w.status == slotless or w.at > now then return w end
  end
  if w.at > now + v.wait then return w end
  -- Ahead it is granted its own slot, and no other's: those would be late in turn.
  local near = now + v.wait
  for _, s in ipairs(scopes) do near = min(near, w.at + s.policy.margin) end
  w.at = place(views(m, now, true), max(now, w.at, v.own or 0), false)
  if w.at <= now or w.at == v.own or w.at <= near then w.status = granted else w.late = true end
  return w
end

-- pass has one that passes quiet hours go by the law alone, and without a slot, where they
-- would hold it.
local function pass(m, v, w)
  local over = v.r.passes and endOf(closed)
  if not over or w.status == granted or w.at < over then return w end
  local at = place(limits(m, now, true), max(now, v.own or 0), false)
  if at >= over then return w end -- it waits for limits
  return {status = (at <= now + v.wait or at == v.own) and granted or deferred, at = at}
end

local function find(m, v)
  v.rank = redis.call('ZRANK', m.class.queue, v.r.id) or nil
  v.slot = v.rank and m.class.slots[v.rank + 1]
end

-- book has the notification join the queue, and adds a slot to the class.
local function book(m, v, w)
  local c = m.class
  if w.order then
    redis.call('ZADD', c.queue, text(w.order), v.r.id)
    c.waiting = c.waiting + 1
  end
  if w.fresh then
    c.slots[#c.slots + 1] = w.fresh
    for _, view in ipairs(m.views or {}) do add(view, w.fresh) end
    put(m, c, w.fresh)
  end
  m.full = m.full or c.waiting > #c.slots
  if w.status == slotless then live(c.queue, w.at) end
end

-- leave takes the notification out, and the slot that it holds.
local function leave(m, v)
  local c = m.class
  redis.call('ZREM', c.queue, v.r.id)
  c.waiting = c.waiting - 1
  if v.slot then take(m, c, table.remove(c.slots, v.rank + 1)) end
end

local function adopt(m, flaps)
  if m.general.words == general.words and m.class.policy.words == special.words and
    m.quiet == (ask.quiet or '') and m.class.quiet == ask.ownQuiet then return false end
  if flaps and now >= m.changed and now - m.changed < flapping then return false end
  others(m)
  m.general, m.class.policy, m.changed = general, special, now
  m.quiet, m.class.quiet = ask.quiet or '', ask.ownQuiet
  return true
end

local function tell(m, v, id, at)
  if id ~= v.r.id then m.moved[#m.moved + 1], m.moved[#m.moved + 2] = id, text(at) end
end

-- replan gives slots, in the order they have, the first places after each other, among
-- those sent and the slots before: those from that instant on, or of the class from that
-- rank on, of which the first is not before the floor. Without a change they all stay.
-- Those that nothing limits any more wait no longer. It tells what comes forward.
local function replan(m, v, from, rank, floor)
  others(m)
  local todo, list, late = {}, inOrder(m), rank ~= nil
  for _, c in ipairs(list) do
    local first = upTo(c.slots, late and from or from - 1)
    if rank and c == m.class then first, late = rank, false end
    local kept = {}
    for k, at in ipairs(c.slots) do
      if k <= first then kept[k] = at else todo[#todo + 1] = {class = c, k = k, at = at} end
    end
    c.held, c.slots, c.gone = #c.slots, kept, {}
  end
  if #list > 1 then
    table.sort(todo, function(a, b) return a.at < b.at or a.at == b.at and a.class.name < b.class.name end)
  end
  m.all, m.views = nil, nil
  local common = commonOf(m)
  m.all = nil
  for i, t in ipairs(todo) do
    local c = t.class
    if not c.views then
      c.views, c.ids = limitsOf(m, c, common), redis.call('ZRANGE', c.queue, 0, c.held - 1)
    end
    local free = c.policy.unlimited and m.general.unlimited and quietOf(m, c) == ''
    if not floor and (c.policy.exempt or free) then
      tell(m, v, c.ids[t.k], now)
      c.gone[#c.gone + 1] = c.ids[t.k]
    else
      local first = i == 1 and floor or min(t.at, now + v.lead)
      local earliest = max(now, (c.slots[#c.slots] or 0) + 1)
      local at = place(c.views, max(earliest, first), true)
      if t.at >= earliest and at ~= t.at and math.abs(at - t.at) <= slack and place(c.views, t.at, false) == t.at then at = t.at end
      if at <= now and t.at <= now then at = t.at end -- due and expected
      if at < t.at then tell(m, v, c.ids[t.k], at) end
      t.to = at
      c.slots[#c.slots + 1] = at
      for _, view in ipairs(c.views) do add(view, at) end
    end
  end
  for _, t in ipairs(todo) do
    if t.to ~= t.at then take(m, t.class, t.at) end
  end
  for _, t in ipairs(todo) do
    if t.to and t.to ~= t.at then put(m, t.class, t.to) end
  end
  for _, c in ipairs(list) do
    if c.gone[1] then redis.call('ZREM', c.queue, unpack(c.gone)) end
    c.waiting, c.views = c.waiting - #c.gone, nil
  end
  m.views = nil
end

-- fill gives slots, while there is room, to those that wait without one, the earliest
-- accepted first.
local function fill(m, v)
  if not m.full or #all(m) >= ask.most then return end
  others(m)
  local list, common = inOrder(m), commonOf(m)
  while true do
    local first
    for _, c in ipairs(list) do
      if c.waiting > #c.slots and not c.next then
        local next = redis.call('ZRANGE', c.queue, #c.slots, #c.slots, 'WITHSCORES')
        c.next = {id = next[1], order = tonumber(next[2])}
      end
      local a, b = c.next, first and first.next
      if a and (not b or a.order < b.order or a.order == b.order and a.id < b.id) then first = c end
    end
    m.full = first ~= nil
    if not first or #m.all >= ask.most or first.next.id == v.r.id then break end -- it is decided of by itself
    first.views = first.views or limitsOf(m, first, common)
    local at = place(first.views, max(now + v.lead, (first.slots[#first.slots] or 0) + 1), true)
    for _, view in ipairs(first.views) do add(view, at) end
    tell(m, v, first.next.id, at)
    put(m, first, at)
    first.slots[#first.slots + 1], first.next = at, nil
  end
  for _, c in ipairs(list) do c.next, c.views = nil, nil end
  m.views = nil
end

-- near reports whether somebody waits so near that a claim would be in vain or in the way.
local function near(m)
  local longest = 0
  for _, r in ipairs(general.rules) do longest = max(longest, r.period) end
  return m.class.waiting > 0 or (all(m)[1] or math.huge) <= max(now, ask.claim) + longest
end

-- bound returns which scope and rule let the notification go no earlier.
local function bound(m, w)
  if w.at <= now then return 0, 0 end
  return binding(views(m, w.at), w.at)
end

local function acquire(m, v)
  zoning(v.r)
  if m.full then others(m) end
  if adopt(m, true) or v.denied and ask.alone and near(m) then replan(m, v, 0) end
  fill(m, v)
  find(m, v)
  local w, held = pass(m, v, decide(m, v)), v.slot
  if w.late or w.joins and not w.fresh then others(m) end
  -- one that is refused at once has taken no slot, and no other's
  if w.joins and (w.late or w.at <= now + v.r.horizon) then
    book(m, v, w)
    find(m, v)
  end
  if w.late then
    replan(m, v, v.slot, v.rank, w.at)
    find(m, v)
    w.at = max(w.at, v.slot)
    -- its slot was given again by the limits of all that wait, which a request's need not be
    if w.at <= now + v.wait and place(views(m, now, true), w.at, false) == w.at then w.status = granted end
  end
  if w.status ~= granted and w.at > now + v.r.horizon then w.status = refused end
  if v.rank and (w.status == granted or w.status == refused) then leave(m, v) end
  -- an admission ahead is moved by a hair, out of reach of the correction of a claim that
  -- may have left it
  if w.status == granted and w.at == v.own then w.at = w.at + 1 end
  local scope, rule = bound(m, w)
  finish(m, v, w.status == granted and w.at)
  fill(m, v)
  return answer(w.status, w.at, scope, rule, held or 0)
end

local function cancel(m, v)
  others(m)
  find(m, v)
  local from, given = v.slot, v.own and ask.op == 'cancel'
  if given then v.own, from = nil, 0 end
  finish(m, v)
  if v.rank then leave(m, v) end
  if from then replan(m, v, from) end
  fill(m, v)
end

local function reschedule(m, v)
  others(m)
  adopt(m, false)
  replan(m, v, 0)
  fill(m, v)
end

-- inherit gives the heir the other's place in the queue, unless its own is earlier. Of two
-- slots the later one goes.
local function inherit(m, v)
  others(m)
  finish(m, v)
  local c = m.class
  local theirs, order = redis.call('ZRANK', c.queue, ask.other), redis.call('ZSCORE', c.queue, ask.other)
  find(m, v)
  if not theirs then return end
  redis.call('ZREM', c.queue, ask.other)
  if not v.rank or theirs < v.rank then redis.call('ZADD', c.queue, order, v.r.id) end
  if not v.rank then return end
  c.waiting = c.waiting - 1
  local later = max(v.rank, theirs) + 1
  if not c.slots[later] then return end
  local from = table.remove(c.slots, later)
  take(m, c, from)
  replan(m, v, from)
  fill(m, v)
end

-- write writes the slots that have changed, and the limits.
local function write(m)
  local gone, new, last = {}, {}, 0
  for name, at in pairs(m.changes) do
    if at then
      new[#new + 1], new[#new + 2] = text(at), name
      last = max(last, at)
    else gone[#gone + 1] = name end
  end
  if gone[1] then redis.call('ZREM', bookedKey, unpack(gone)) end
  if new[1] then
    redis.call('ZADD', bookedKey, unpack(new))
    live(bookedKey, last)
    for _, c in pairs(m.classes) do
      if c.slots[1] and c.waiting then live(c.queue, c.slots[#c.slots]) end
    end
  end
  if #all(m) == 0 and not m.full then
    if next(m.fields) then redis.call('DEL', limitsKey) end
    return
  end
  local fields = {g = m.general.words, h = m.quiet ~= '' and m.quiet or nil, full = m.full and '1' or nil, ['@'] = m.changed > -flapping and text(m.changed) or nil}
  local some = fields.h
  for name, c in pairs(m.classes) do
    if not c.waiting or c.waiting > 0 then
      fields['c' .. name], fields['q' .. name] = c.policy.words, c.quiet
      some = some or c.quiet
    end
  end
  if some then fields.z = zone.written or not ask.zone and m.fields.z or nil end
  for field, value in pairs(fields) do
    if m.fields[field] ~= value then redis.call('HSET', limitsKey, field, value) end
  end
  for field in pairs(m.fields) do
    if not fields[field] then redis.call('HDEL', limitsKey, field) end
  end
  if new[1] then live(limitsKey, last) end
end

local operations = {
  acquire = acquire, cancel = cancel, leave = cancel, inherit = inherit, reschedule = reschedule,
}
local m = read()
m.admitted, m.class.admitted = newest(sentKey, {general, m.general}), newest(m.class.sent, {special, m.class.policy})
local done, fault = pcall(function()
  trim(m)
  for i = #answers + 1, #ask.all do
    answers[i] = operations[ask.op](m, visit(m, ask.all[i])) or answer(granted, now, 0, 0, 0)
  end
end)
local lacks = not done and type(fault) == 'table' and fault.lacks
if not (done or lacks) then error(fault) end -- on a key of another type, say
write(m)
return {now, near(m) and 1 or 0, m.moved, answers, lacks or {}}
