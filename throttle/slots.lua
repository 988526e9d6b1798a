-- The slots of one user's notifications: who waits, and until when.
--
-- Admissions are law: a notification is granted at this very instant, and only if those that were
-- sent and its own quiet hours allow it. Slots are advice: they say when to ask again, and who
-- comes first.
--
-- KEYS[1]    slots  who waits, as LINE ID, by its slot: sorted set
-- KEYS[2]    early  those of them whose slot is earlier than their job was told: sorted set
-- KEYS[3]    lines  hash: of each line that waits COUNT LEFT, and under "placed" when a slot
--                   was placed last. LEFT is when the line was placed again for a leaver
-- KEYS[4]    sent   admissions, by their instant: sorted set
-- KEYS[4+i]  sent:CATEGORY of the i-th line
-- ARGV[1]    acquire, leave, replan, or dry_run, which is replan and writes nothing
-- ARGV[2]    the rest of the call as JSON, see slots.go
--
-- A line is a category's notifications of one zone; its name is CATEGORY ZONE and a space.
-- Within a line slots ascend in the order in which its notifications have asked. Instants and
-- periods are in µs of this server's clock.
--
-- It returns now, how many wait, an answer for each notification, who is to be woken (LINE ID
-- and slot in turns), the other lines that wait, after how long the line is to be placed again,
-- and of a dry run LINE ID, old and new slot of each.

local op, ask = ARGV[1], cjson.decode(ARGV[2])
local dry = op == 'dry_run'
local slotsKey, earlyKey, linesKey, sentKey = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local max, min, sub = math.max, math.min, string.sub
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local GRANTED, DEFERRED, REFUSED, REJECTED, SLOTLESS = 1, 2, 3, 4, 5 -- as decision in slots.go reads them
local SECOND = 1000000
local OVERDUE = SECOND        -- an earlier slot that is overdue by more may be passed,
local HAIR = 20000            -- and one that is earlier by no more than this
local LITTLE = 100000         -- one that is short by less moves nobody else
local SOON = 2 * SECOND       -- who is early and due within this is woken
local AHEAD = 3               -- so many of those who are early are woken, however far away:
                              -- a wake that is lost leaves others, whose calls name it again
local WAKES = 64              -- so many at most
local GONE = 3600 * SECOND    -- a slot so long overdue may be nobody's: its job is looked at
local QUIET = 3               -- in the place of a scope's number: quiet hours

local function text(instant) return string.format('%.0f', instant) end

-- score returns the instant of the set's entry with that rank, from -1 for the newest, or nil.
local function score(set, rank) return tonumber(redis.call('ZRANGE', set, rank, rank, 'WITHSCORES')[2]) end
local function scoreOf(set, member) return tonumber(redis.call('ZSCORE', set, member) or nil) end

-- upTo returns how many of the ascending instants are not later than that one.
local function upTo(instants, at)
  local low, high = 0, #instants
  if high == 0 or instants[high] <= at then return high end
  while low < high do
    local middle = math.floor((low + high) / 2)
    if instants[middle + 1] <= at then low = middle + 1 else high = middle end
  end
  return low
end

-- Each line gets its scopes: the user's general limits, and the category's. A scope's rules
-- are N and PERIOD in turns, the minimum gap first; at most N go in any PERIOD.
local function scopesOf(line, i)
  local scopes = {}
  if ask.general then scopes[1] = {number = 1, set = sentKey, rules = ask.general.rules, margin = ask.general.margin} end
  if line.own then scopes[#scopes + 1] = {number = 2, set = KEYS[4 + i], rules = line.own.rules, margin = line.own.margin} end
  for _, s in ipairs(scopes) do
    s.most = 0
    for k = 1, #s.rules, 2 do s.most = max(s.most, s.rules[k]) end
  end
  return scopes
end
for i, line in ipairs(ask.lines) do
  line.scopes, line.closed = scopesOf(line, i), line.closed or {}
end

-- opened returns the first instant from that one on that is in no closed interval.
local function opened(closed, at)
  for i = 1, #closed, 2 do
    if at < closed[i] then break end
    if at < closed[i + 1] then return closed[i + 1] end
  end
  return at
end

-- law returns the first instant from now on at which the admissions alone allow one more, but
-- for the member's own, and which scope and rule say so.
local function law(line, member)
  local at, scope, rule = now, 0, 0
  for _, s in ipairs(line.scopes) do
    local own = scoreOf(s.set, member)
    for k = #s.rules - 1, 1, -2 do
      local n, period = s.rules[k], s.rules[k + 1]
      local nth = period > 0 and score(s.set, -n)
      if nth and own and own >= nth then nth = score(s.set, -n - 1) end
      if nth and nth + period > at then at, scope, rule = nth + period, s.number, (k + 1) / 2 end
    end
  end
  return at, scope, rule
end

-- lawful is law with the line's quiet hours.
local function lawful(line, member)
  local at, scope, rule = law(line, member)
  local open = opened(line.closed, at)
  if open > at then return open, QUIET, 0 end
  return at, scope, rule
end

-- Who waits, as it was read: entries in the order of their slots.

local waiting

local function isOf(entry, name) return sub(entry.member, 1, #name) == name end
local function idOf(line, entry) return sub(entry.member, #line.name + 1) end

local function read()
  if waiting then return end
  waiting = {}
  local list = redis.call('ZRANGE', slotsKey, 0, -1, 'WITHSCORES')
  for i = 1, #list, 2 do waiting[#waiting + 1] = {member = list[i], at = tonumber(list[i + 1])} end
end

-- entriesOf returns the line's entries, in their order.
local function entriesOf(line)
  local list = {}
  for _, e in ipairs(waiting) do
    if isOf(e, line.name) then list[#list + 1] = e end
  end
  return list
end

-- views are what a place is sought among: of each scope the newest admissions but the
-- member's, and the slots but those that are to be placed.
local function views(line, member)
  local list = {}
  for i, s in ipairs(line.scopes) do
    local sent, slots, marks, waits = {}, {}, {}, {}
    local newest = redis.call('ZRANGE', s.set, -s.most - 1, -1, 'WITHSCORES')
    for k = 1, #newest, 2 do
      if newest[k] ~= member then sent[#sent + 1] = tonumber(newest[k + 1]) end
    end
    for _, e in ipairs(waiting) do
      if not e.placing and (s.number == 1 or isOf(e, line.category .. ' ')) then slots[#slots + 1] = e.at end
    end
    local a, b = 1, 1
    while sent[a] or slots[b] do
      if not slots[b] or sent[a] and sent[a] <= slots[b] then marks[#marks + 1], waits[#waits + 1], a = sent[a], false, a + 1
      else marks[#marks + 1], waits[#waits + 1], b = slots[b], true, b + 1 end
    end
    list[i] = {marks = marks, waits = waits, scope = s}
  end
  return list
end

-- clash returns the first instant behind that one at which the windows that forbid it are
-- over, and the rule; nil where every n + 1 entries around it span the period. A window that
-- a slot begins or ends spans a margin more, so that one that comes a hair late delays nobody.
local function clash(view, at, margin)
  local marks, waits, rules = view.marks, view.waits, view.scope.rules
  local before = upTo(marks, at)
  for k = #rules - 1, 1, -2 do -- of two that agree the longer one is named
    local n, period = rules[k], rules[k + 1]
    if period > 0 then
      local most = period + margin
      local first = max(upTo(marks, at - most), before - n) + 1
      local last = min(before + 1, upTo(marks, at + most - 1) - n + 1)
      for i = first, last do -- the window of the i-th mark, n - 1 behind it, and the new one
        local j = i + n - 1
        local span = (i <= before and waits[i] or j > before and waits[j]) and most or period
        if max(marks[j], at) - min(marks[i], at) < span then
          return marks[i] + span, (k + 1) / 2
        end
      end
    end
  end
end

-- place returns the first instant from that one on that fits among the views and is not
-- closed, and what let it be no earlier.
local function place(line, among, at, margins)
  local scope, rule, agreed, i, all = 0, 0, 0, 1, #among + 1
  while agreed < all do
    local later, by
    if i > #among then
      later = opened(line.closed, at)
      if later == at then later = nil end
    else later, by = clash(among[i], at, margins and among[i].scope.margin or 0) end
    if later then
      at, agreed = later, 0
      if by then scope, rule = among[i].scope.number, by else scope, rule = QUIET, 0 end
    else agreed, i = agreed + 1, i % all + 1 end
  end
  return at, scope, rule
end

-- What is written.

local function count(line, n)
  local counted, left = string.match(redis.call('HGET', linesKey, line.name) or '0 0', '^(%S+) (%S+)$')
  counted = counted + n
  if counted > 0 then redis.call('HSET', linesKey, line.name, text(counted) .. ' ' .. left)
  elseif redis.call('ZCARD', slotsKey) == 0 then redis.call('DEL', linesKey)
  else redis.call('HDEL', linesKey, line.name) end
end

local function lives(key, last)
  local life = math.ceil((ask.life + max(0, last - now)) / 1000)
  if life > redis.call('PTTL', key) then redis.call('PEXPIRE', key, text(life)) end
end

-- placed notes that slots were placed, the last of them then.
local function placed(last)
  redis.call('HSET', linesKey, 'placed', text(now))
  lives(slotsKey, last)
  lives(linesKey, last)
  lives(earlyKey, last)
end

-- drop takes an entry out, and reports whether it was there.
local function drop(line, id)
  local member = line.name .. id
  if redis.call('ZREM', slotsKey, member) == 0 then return false end
  redis.call('ZREM', earlyKey, member)
  count(line, -1)
  for i, e in ipairs(waiting or {}) do
    if e.member == member then table.remove(waiting, i) break end
  end
  return true
end

local function take(line, member)
  for _, s in ipairs(line.scopes) do redis.call('ZREM', s.set, member) end
end

-- admit enters the notification among those sent, and returns its instant: never one before
-- that of its own admission, and out of reach of a denied claim of its own that is to be taken
-- out. What was sent before the horizon goes.
local function admit(line, r)
  local at = now
  for _, s in ipairs(line.scopes) do at = max(at, (scoreOf(s.set, r.member) or 0) + 1) end
  for _, s in ipairs(line.scopes) do
    redis.call('ZADD', s.set, text(at), r.member)
    redis.call('ZREMRANGEBYSCORE', s.set, '-inf', text(now - ask.keep))
    local ahead = max(at, score(s.set, -1)) - now
    redis.call('PEXPIRE', s.set, text(math.ceil((ask.life + ahead) / 1000)))
  end
  drop(line, r.id)
  return at
end

-- again places the line's entries from the k-th on, in their order, each at the first instant
-- that fits among all others, none before the floor. It marks as early what is earlier than
-- before. The admission of a member that is named does not count.
local function again(line, k, floor, member)
  read()
  local entries, moved, sooner, last = entriesOf(line), {}, {}, 0
  if k > #entries then return entries end
  for i = k, #entries do entries[i].placing = true end
  local among, at = views(line, member), entries[k - 1] and entries[k - 1].at or 0
  for i = k, #entries do
    local e = entries[i]
    local scope, rule
    at, scope, rule = place(line, among, max(floor, at + 1), true)
    if dry then ask.moves[#ask.moves + 1] = {e.member, e.at, at} end
    if at ~= e.at then moved[#moved + 1], moved[#moved + 2] = text(at), e.member end
    if at < e.at then sooner[#sooner + 1], sooner[#sooner + 2] = text(at), e.member end
    e.at, e.placing, e.scope, e.rule, last = at, nil, scope, rule, at
    for _, v in ipairs(among) do
      local k = upTo(v.marks, at) + 1
      table.insert(v.marks, k, at)
      table.insert(v.waits, k, true)
    end
  end
  table.sort(waiting, function(a, b) return a.at < b.at or a.at == b.at and a.member < b.member end)
  if dry or not moved[1] then return entries end
  redis.call('ZADD', slotsKey, unpack(moved))
  redis.call('ZADD', earlyKey, 'XX', unpack(moved))
  if sooner[1] then redis.call('ZADD', earlyKey, unpack(sooner)) end
  placed(last)
  return entries
end

-- What is answered.

local function answer(line, status, at, scope, rule, slot)
  local a = {status, at, scope or 0, rule or 0, slot or 0}
  for _, s in ipairs(ask.report and line.scopes or {}) do
    for k = 3, #s.rules, 2 do
      a[#a + 1] = redis.call('ZCOUNT', s.set, '(' .. text(now - s.rules[k + 1]), '+inf')
    end
  end
  return a
end

-- woken names of the line the first ones that are early, and all that are due soon.
local function woken(line)
  local names, step = {}, 128
  for from = 0, 4000, step do
    local list = redis.call('ZRANGE', earlyKey, from, from + step - 1, 'WITHSCORES')
    for i = 1, #list, 2 do
      local at = tonumber(list[i + 1])
      if names[2 * WAKES] or names[2 * AHEAD] and at > now + SOON then return names end
      if sub(list[i], 1, #line.name) == line.name then
        names[#names + 1], names[#names + 2] = list[i], text(at)
      end
    end
    if #list < 2 * step then break end
  end
  return names
end

-- others returns the names of the user's lines that the call does not place.
local function others()
  local names, of = {}, {placed = true}
  for _, line in ipairs(ask.lines) do of[line.name] = true end
  for _, name in ipairs(redis.call('HKEYS', linesKey)) do
    if not of[name] then names[#names + 1] = name end
  end
  return names
end

-- full reports whether the line takes nothing more.
local function full(line)
  local all = redis.call('ZCARD', slotsKey)
  if all < ask.most then return false end
  if all >= 2 * ask.most then return true end
  local held, fields = 0, redis.call('HGETALL', linesKey)
  for i = 1, #fields, 2 do
    if sub(fields[i], 1, #line.category + 1) == line.category .. ' ' then
      held = held + tonumber(string.match(fields[i + 1], '^%S+'))
    end
  end
  return held >= ask.most
end

-- rename gives the notification a slot that stands under another name: its own in another
-- zone, or its elder's. Of two slots the later one goes.
local function rename(line, r, old, id, slot)
  local member = line.name .. r.id
  local own = scoreOf(slotsKey, member)
  redis.call('ZREM', slotsKey, old.name .. id)
  redis.call('ZREM', earlyKey, old.name .. id)
  count(old, -1)
  waiting = nil
  if own and own <= slot then return own end
  redis.call('ZADD', slotsKey, text(slot), member)
  if not own then count(line, 1) end
  lives(slotsKey, slot) -- it may have been the only one
  lives(linesKey, slot)
  return slot
end

-- slotOf returns the slot that the notification holds, or takes over.
local function slotOf(line, r)
  local slot = scoreOf(slotsKey, line.name .. r.id)
  local elder = r.elder and scoreOf(slotsKey, line.name .. r.elder)
  if elder then slot = rename(line, r, line, r.elder, elder) end
  if slot or redis.call('ZCARD', slotsKey) == 0 then return slot end
  if not r.kept and redis.call('HEXISTS', linesKey, line.name) == 1 and full(line) then return nil end
  read() -- it may be in another zone
  for _, e in ipairs(waiting) do
    if isOf(e, line.category .. ' ') then
      local name, id = string.match(e.member, '^(%S* %S* )(.*)$')
      if id == r.id or id == r.elder then return rename(line, r, {name = name}, id, e.at) end
    end
  end
end

-- rival returns the latest earlier slot of the line that is due, and may not be passed.
local function rival(line, slot)
  local due = redis.call('ZRANGEBYSCORE', slotsKey, text(now - OVERDUE), '(' .. text(slot - HAIR), 'WITHSCORES')
  for i = #due - 1, 1, -2 do
    if sub(due[i], 1, #line.name) == line.name then return tonumber(due[i + 1]) end
  end
end

-- come decides of one that holds a slot.
local function come(line, r, slot)
  local free, scope, rule = lawful(line, r.member)
  local ahead = slot <= now and rival(line, slot)
  if slot <= now and free <= now and not ahead and not r.books then
    return answer(line, GRANTED, admit(line, r), 0, 0, slot)
  end
  read()
  local entries, rank = entriesOf(line), 0
  for i, e in ipairs(entries) do
    if e.member == line.name .. r.id then rank = i end
  end
  if slot > now then -- what holds it is what would place it there
    local e = entries[rank]
    e.placing = true
    local _, by, k = place(line, views(line, r.member), max(now, entries[rank - 1] and entries[rank - 1].at + 1 or 0), true)
    e.placing = nil
    scope, rule = by, k
  else
    local next = entries[rank + 1]
    if not ahead and free - slot < LITTLE and (not next or free < next.at) then
      entries[rank].at = free -- those behind are late by a margin less each
      redis.call('ZADD', slotsKey, text(free), line.name .. r.id)
      placed(free)
    else -- one that is overdue is not alone: a pause is over, or an outage
      entries = again(line, now - slot > OVERDUE and 1 or rank, max(now + 1, free, ahead and ahead + OVERDUE + 1 or 0))
    end
    if scope == 0 then scope, rule = entries[rank].scope, entries[rank].rule end
  end
  local at = entries[rank].at
  redis.call('ZREM', earlyKey, line.name .. r.id) -- it is told now
  if at > now + r.horizon then
    drop(line, r.id)
    return answer(line, REFUSED, at, scope, rule, slot)
  end
  return answer(line, DEFERRED, at, scope, rule, slot)
end

-- ahead gives one that was let through before, and may not go now, the first slot of its line:
-- it has had its turn.
local function ahead(line, r, free, scope, rule)
  if free > now + r.horizon then return answer(line, REFUSED, free, scope, rule) end
  read()
  local first = entriesOf(line)[1]
  redis.call('ZADD', slotsKey, text(first and min(first.at - 1, now) or now), line.name .. r.id)
  count(line, 1)
  waiting = nil
  local own = again(line, 1, max(now + 1, free), r.member)[1]
  if own.scope > 0 then scope, rule = own.scope, own.rule end
  if own.at > now + r.horizon then
    drop(line, r.id)
    again(line, 1, now)
    return answer(line, REFUSED, own.at, scope, rule)
  end
  return answer(line, DEFERRED, own.at, scope, rule)
end

-- arrive decides of one that holds none.
local function arrive(line, r)
  local held = redis.call('ZCARD', slotsKey) > 0
  if held and not r.kept and redis.call('HEXISTS', linesKey, line.name) == 1 and full(line) then return answer(line, REJECTED, now) end
  local free, scope, rule = lawful(line, r.member)
  if not held and free <= now and not r.books then
    return answer(line, GRANTED, admit(line, r))
  end
  if held then read() else waiting = {} end
  local entries = entriesOf(line)
  local last = entries[#entries]
  local among = views(line, r.member)
  local at, by, k = place(line, among, max(free, last and last.at + 1 or 0), false)
  if by > 0 then scope, rule = by, k end
  if at <= now and not r.books then
    return answer(line, GRANTED, admit(line, r))
  end
  if at <= now + r.horizon then
    at, by, k = place(line, among, max(at, now), true)
    if by > 0 then scope, rule = by, k end
  end
  if at > now + r.horizon then return answer(line, REFUSED, at, scope, rule) end
  if full(line) then
    if not r.kept then return answer(line, REJECTED, now) end
    return answer(line, SLOTLESS, last and max(last.at, now + SECOND) or at, scope, rule)
  end
  redis.call('ZADD', slotsKey, text(at), line.name .. r.id)
  count(line, 1)
  placed(at)
  local i = #waiting
  while i > 0 and waiting[i].at > at do i = i - 1 end
  table.insert(waiting, i + 1, {member = line.name .. r.id, at = at})
  return answer(line, DEFERRED, at, scope, rule)
end

-- acquire decides of one notification. One that was let through, and asks again as the answer
-- was lost, it did not leave in time or it is sent again, needs the law alone. So does what passes quiet hours, in them.
local function acquire(line, r)
  local own = line.scopes[1] and scoreOf(line.scopes[1].set, r.member)
  if own and own == ask.claim then
    take(line, r.member)
    own = nil
    if (tonumber(redis.call('HGET', linesKey, 'placed') or nil) or 0) >= ask.entered then
      again(line, 1, now)
      ask.told = others()
    end
  end
  local slot = slotOf(line, r)
  local night = opened(line.closed, now)
  if not r.books and (own and not slot or r.passes and night > now) then
    local free, scope, rule = law(line, r.member)
    if free <= now and (r.passes or night == now) then
      return answer(line, GRANTED, admit(line, r), 0, 0, slot)
    end
    if r.passes and free < night and not slot then
      return answer(line, free > now + r.horizon and REFUSED or SLOTLESS, free, scope, rule)
    end
    if own and not slot and not r.passes then return ahead(line, r, free, scope, rule) end
  end
  if slot then return come(line, r, slot) end
  return arrive(line, r)
end

-- upAgain places the line's entries from that slot on again, at most once a second.
local function upAgain(line, slot)
  local counted, left = string.match(redis.call('HGET', linesKey, line.name) or '', '^(%S+) (%S+)$')
  if not counted then return end
  local since = now - left
  if since >= 0 and since < SECOND then
    ask.after = max(ask.after, SECOND - since)
    return
  end
  redis.call('HSET', linesKey, line.name, counted .. ' ' .. text(now))
  read()
  local entries, k = entriesOf(line), 1
  while entries[k] and entries[k].at < slot do k = k + 1 end
  again(line, k, now)
end

-- leave removes notifications that have ended, or go back, and moves up those behind. A
-- notification that was not used gives its admission back too, and may be booked in another
-- zone. Many leave one by one, so it reads the line only to place it.
local function leave(line)
  local zones, held, first = {}, {}, nil
  for _, name in ipairs(redis.call('HKEYS', linesKey)) do
    if name ~= line.name and sub(name, 1, #line.category + 1) == line.category .. ' ' then zones[#zones + 1] = {name = name} end
  end
  for _, r in ipairs(ask.all) do
    for _, s in ipairs(line.scopes) do held[r] = scoreOf(s.set, r.member) or held[r] end
  end
  for _, r in ipairs(ask.all) do
    local slot = scoreOf(slotsKey, line.name .. r.id)
    if slot and drop(line, r.id) then first = min(first or slot, slot) end
    for _, zone in ipairs(zones) do
      if drop(zone, r.id) then first = first or math.huge end
    end
    if held[r] and not r.used then
      take(line, r.member)
      first = 0
    end
  end
  if not first then return end
  ask.told = others()
  upAgain(line, first)
end

-- replan places the line again, as limits have changed or its caller was told to. Those
-- whom nothing limits any more wait no longer, and are named at now.
local function replan(line)
  if not line.free then
    if ask.leaver then upAgain(line, 0) else again(line, 1, now) end
    return
  end
  read()
  for _, e in ipairs(entriesOf(line)) do
    if dry then ask.moves[#ask.moves + 1], e.placing = {e.member, e.at, 0}, true
    else
      ask.freed[#ask.freed + 1], ask.freed[#ask.freed + 2] = e.member, text(now)
      drop(line, idOf(line, e))
    end
  end
end

ask.moves, ask.told, ask.freed, ask.after = {}, {}, {}, 0
local answers, first = {}, ask.lines[1]
if op == 'acquire' then
  for i, r in ipairs(ask.all) do answers[i] = acquire(first, r) end
elseif op == 'leave' then leave(first)
elseif op == 'replan' or dry then
  for _, line in ipairs(ask.lines) do replan(line) end
  ask.told = others()
end
if waiting and not dry then
  for _, e in ipairs(waiting) do
    if e.at > now - GONE then break end
    redis.call('ZADD', earlyKey, text(e.at), e.member)
    lives(earlyKey, now)
  end
end
local names = ask.freed
for _, line in ipairs(dry and {} or ask.lines) do
  for _, word in ipairs(woken(line)) do names[#names + 1] = word end
end
return {now, redis.call('ZCARD', slotsKey), answers, names, ask.told, ask.after, ask.moves}
