-- One visit to the lines of a user: everything that has to branch. The grant
-- of a first visit does not come here; claim.go has it.
--
-- KEYS  for the general scope: sent, booked; for the category's: sent, booked, line
-- ARGV  op, member, ID, claim, wait, horizon, keep, life, slack,
--       then for each scope 1 or 0, and if 1: margin, number of rules, {n, period}…
-- Instants and periods are in µs of this server's clock.
--
-- Own entries are taken out first, so that no count holds them, and put back
-- where the decision leaves them. "Ahead" of a newcomer is who was sent and who
-- waits; of a job at its slot, only who was sent: its slot was reserved.

local op, member, id = ARGV[1], ARGV[2], ARGV[3]
local claim, wait, horizon = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
local keep, life, slack = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])

local key, arg = 0, 9
local function nextkey() key = key + 1; return KEYS[key] end
local function nextarg() arg = arg + 1; return tonumber(ARGV[arg]) end

local function scope(names)
  if nextarg() == 0 then return nil end
  local s = {margin = nextarg(), rules = {}}
  for i = 1, nextarg() do s.rules[i] = {n = nextarg(), period = nextarg()} end
  for _, name in ipairs(names) do s[name] = nextkey() end
  return s
end
local all = scope({'sent', 'booked'})
local cat = scope({'sent', 'booked', 'line'})

local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function text(instant) return string.format('%.0f', instant) end

-- score answers the entry with that rank from the newest, or nil.
local function score(set, rank)
  return tonumber(redis.call('ZREVRANGE', set, rank, rank, 'WITHSCORES')[2])
end

-- newest answers the n-th newest entry of the union of the sets, or nil. It
-- walks from the newest by runs of one set, of which there are few.
local function newest(sets, n)
  local rank, head = {}, {}
  for i, set in ipairs(sets) do rank[i] = 0; head[i] = score(set, 0) end
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
      run = math.max(1, redis.call('ZCOUNT', sets[first], '(' .. text(head[second]), '+inf') - rank[first])
    end
    if n <= run then return score(sets[first], rank[first] + n - 1) end
    n = n - run
    rank[first] = rank[first] + run
    head[first] = score(sets[first], rank[first])
  end
end

-- behind answers the first instant from that one on at which the rules allow
-- an admission after the sets' entries, save the newest skip of them, and the
-- rule that sets it.
local function behind(s, sets, from, margin, skip)
  local instant, rule = from, 0
  for i, r in ipairs(s.rules) do
    local entry = r.period + margin > 0 and newest(sets, r.n + (skip or 0))
    if entry and entry + r.period + margin > instant then
      instant, rule = entry + r.period + margin, i
    end
  end
  return instant, rule
end

-- fit answers the first instant from that one on at which the rules allow an
-- admission among those sent, some of which may have been granted ahead of
-- their instant: of the windows of n + 1 that would hold the new one, each must
-- span the period.
local function fit(s, from)
  local instant, rule = from, 0
  local settled
  repeat
    settled = true
    local later = redis.call('ZCOUNT', s.sent, '(' .. text(instant), '+inf')
    for i, r in ipairs(s.rules) do
      for j = 0, r.period > 0 and math.min(later, r.n) or -1 do
        local last = j == 0 and instant or score(s.sent, later - j)
        local first = j == r.n and instant or score(s.sent, later + r.n - j - 1)
        if first and last - first < r.period then
          -- these n are too close together for one more among them
          instant = (j == r.n and score(s.sent, later - 1) or first) + r.period
          rule, settled = i, false
          break
        end
      end
      if not settled then break end
    end
  until settled
  return instant, rule
end

-- live has the set expire when its last entry is out of every window.
local function live(set)
  local last = score(set, 0)
  if last then
    redis.call('PEXPIRE', set, text(math.ceil((life + math.max(0, last - now)) / 1000)))
  end
end

local function put(set, instant, name)
  redis.call('ZADD', set, text(instant), name)
  live(set)
end

-- first answers the earliest instant for a line whose predecessors are in ahead.
local function first(ahead)
  local instant = now
  for _, set in ipairs(ahead) do instant = math.max(instant, score(set, 0) or 0) end
  return instant
end

-- shift gives the line's entries the earliest slots after those of the sets
-- ahead, in the order they have, and tells who has come forward.
local function shift(s, line, ahead, mirror, moved)
  redis.call('ZREMRANGEBYSCORE', line, '-inf', text(now - keep)) -- nobody comes for them
  local entries = redis.call('ZRANGE', line, 0, -1, 'WITHSCORES')
  local slots = {}
  for i = 1, #entries, 2 do
    local name, old, k = entries[i], tonumber(entries[i + 1]), #slots
    local slot = k == 0 and first(ahead) or slots[k] + s.margin
    for _, r in ipairs(s.rules) do
      local entry
      if r.n <= k then entry = slots[k - r.n + 1] else entry = newest(ahead, r.n - k) end
      if entry then slot = math.max(slot, entry + r.period + s.margin) end
    end
    slots[k + 1] = slot
    if slot ~= old then
      redis.call('ZADD', line, text(slot), name)
      if mirror then redis.call('ZADD', mirror, 'XX', text(slot), name) end
      if slot < old - slack then
        moved[#moved + 1] = name
        moved[#moved + 1] = slot
      end
    end
  end
  live(line)
  if mirror then live(mirror) end
end

-- pull shifts a line whose head has a later slot than it needs: a limit was
-- raised, or somebody ahead has given up.
local function pull(s, line, ahead, mirror, moved)
  local head = tonumber(redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')[2])
  if not head or head <= now + slack then return end
  if head > behind(s, ahead, first(ahead), s.margin) + slack then
    shift(s, line, ahead, mirror, moved)
  end
end

-- own entries: what they were, and taking them out
local sent = all and redis.call('ZSCORE', all.sent, member) or cat and redis.call('ZSCORE', cat.sent, member)
local booked = all and redis.call('ZSCORE', all.booked, id)
local lined = cat and redis.call('ZSCORE', cat.line, id)
sent, booked, lined = tonumber(sent or nil), tonumber(booked or nil), tonumber(lined or nil)

local function unsend()
  if all then redis.call('ZREM', all.sent, member) end
  if cat then redis.call('ZREM', cat.sent, member) end
end
local function unline()
  if booked then redis.call('ZREM', all.booked, id) end
  if booked and cat then redis.call('ZREM', cat.booked, id) end
  if lined then redis.call('ZREM', cat.line, id) end
end
local function send(instant)
  if all then put(all.sent, instant, member) end
  if cat then put(cat.sent, instant, member) end
end
local function wait_in(place, slot)
  if place == 'line' then return put(cat.line, slot, id) end
  put(all.booked, slot, id)
  if cat then put(cat.booked, slot, id) end
end

if sent then unsend() end
if sent == claim and claim > 0 then sent = nil end -- a claim that was denied
unline()

-- decide answers status, instant, scope and rule, and where the job is to wait:
-- 'booked' or 'line'. Status 1 is granted, 2 deferred, 3 refused. shifted says
-- that the instant is later than the job's slot, so that its line has to follow.
local function decide()
  local slot = booked or lined or (sent and sent > now and sent)
  local place = booked and 'booked' or lined and 'line'
  if place and slot > now + wait then
    local s, sets, which = all, all and {all.sent, all.booked}, 1
    if place == 'line' then s, sets, which = cat, {cat.sent, cat.booked, cat.line}, 2 end
    local later = 0
    for _, set in ipairs(sets) do later = later + redis.call('ZCOUNT', set, text(slot), '+inf') end
    local _, rule = behind(s, sets, 0, 0, later)
    return 2, slot, which, rule, place
  end

  local from = math.max(now, slot or 0)
  local a, arule, c, crule = from, 0, from, 0
  if slot and place ~= 'line' then
    repeat -- until both scopes agree on one instant
      local before = math.max(a, c)
      if all then local at, r = fit(all, before); if r > 0 then a, arule = at, r end end
      if cat then local at, r = fit(cat, math.max(before, a)); if r > 0 then c, crule = at, r end end
    until math.max(a, c) == before
  else
    if cat and slot then c, crule = fit(cat, from)
    elseif cat then c, crule = behind(cat, {cat.sent, cat.booked, cat.line}, from, 0) end
    if all then a, arule = behind(all, {all.sent, all.booked}, from, 0) end
    if math.max(a, c) > now then -- a slot, not an admission now: keep the margin
      if cat and not slot then c, crule = behind(cat, {cat.sent, cat.booked, cat.line}, from, cat.margin) end
      if all then a, arule = behind(all, {all.sent, all.booked}, from, all.margin) end
    end
  end

  local instant, s, rule = a, 1, arule
  if not all or c > a then instant, s, rule = c, 2, crule end
  if instant <= now + wait then return 1, instant, s, rule end

  if not place then
    place = 'booked'
    if not all or cat and (c > a or redis.call('EXISTS', cat.line) == 1) then
      place, instant, s, rule = 'line', c, 2, crule
    end
    if instant <= now then instant = now + 1 end
  elseif place == 'booked' and cat and a <= now + wait then
    place, instant, s, rule = 'line', c, 2, crule
  elseif place == 'line' and c <= now + wait then
    place, instant, s, rule = 'booked', a, 1, arule
  else
    return 2, instant, s, rule, place, true
  end
  if instant > now + horizon then return 3, instant, s, rule end
  return 2, instant, s, rule, place
end

-- The general line's predecessors, and the category line's.
local allahead, catahead = all and {all.sent}, cat and {cat.sent, cat.booked}
local function shiftall(moved)
  if all then shift(all, all.booked, allahead, cat and cat.booked, moved) end
end
local function shiftcat(moved)
  if cat then shift(cat, cat.line, catahead, nil, moved) end
end

local moved = {}
local status, instant, s, rule, place, late = 0, now, 0, 0

if op == 'acquire' then
  status, instant, s, rule, place, late = decide()
  if status == 1 then
    send(instant)
    for _, scope in ipairs({all or cat, all and cat}) do
      redis.call('ZREMRANGEBYSCORE', scope.sent, '-inf', text(now - keep))
    end
  else
    if sent then send(sent) end -- it may have gone out then
    if status == 2 then
      -- a late one goes back to its place, and its whole line moves in order
      wait_in(place, late and (booked or lined) or instant)
      if late and place == 'line' then shiftcat(moved) elseif late then shiftall(moved) end
    end
  end
elseif op == 'peek' then
  status, instant, s, rule = decide()
  if sent then send(sent) end
  if booked then wait_in('booked', booked) end
  if lined then wait_in('line', lined) end
else -- cancel: own entries stay out; reschedule: there are none
  shiftall(moved)
  shiftcat(moved)
end

if op == 'acquire' then
  if all then pull(all, all.booked, allahead, cat and cat.booked, moved) end
  if cat then pull(cat, cat.line, catahead, nil, moved) end
  if status == 2 then -- where the line has it now
    instant = tonumber(redis.call('ZSCORE', place == 'line' and cat.line or all.booked, id))
    if instant > now + horizon then
      status, booked, lined = 3, place ~= 'line', place == 'line'
      unline()
    end
  end
end

local reply = {status, now, instant, s, rule}
for _, field in ipairs(moved) do reply[#reply + 1] = type(field) == 'number' and text(field) or field end
return reply
