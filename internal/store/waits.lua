-- waitsOf returns the key of the sorted set of a user's waiting IDs, from a record's key, its ID
-- and its field of; nil if the user is unknown. Each step that makes a record wait and knows its
-- user adds the ID, and each end removes it. The set lacks notifications with lost records. A key
-- of another type is ignored.
local function waitsOf(record, id, of)
  local app = of and string.find(of, '\n', 1, true)
  local user = app and string.find(of, '\n', app + 1, true)
  return user and string.sub(record, 1, -#id - 4) .. 'waits:' .. string.sub(of, 1, user - 1)
end
local function addWaiting(record, id, of)
  local waits = waitsOf(record, id, of)
  if waits then redis.pcall('ZADD', waits, 0, id) end
end
local function removeWaiting(record, id, of)
  local waits = waitsOf(record, id, of)
  if waits then redis.pcall('ZREM', waits, id) end
end
