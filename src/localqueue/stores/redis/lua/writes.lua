-- Changes of single fields and members are noted in the call's context and written together: before somebody looks at
-- a whole key that has some (`L.ask`), and when the call is done. Who asks for one field sees what is noted.
--
-- A call that may still be refused has an undo log: what it writes before its end is logged with what was there, and a
-- refusal plays it back.

local function note(tx, notes, key, field, value)
  local of = notes[key]
  if not of then
    of = {}
    notes[key] = of
  end
  of[field] = value
  tx.noted = true
end

-- A value of false removes the field, a score of false the member.
function L.hset(tx, key, field, value)
  note(tx, tx.hashes, key, field, value)
end

function L.zset(tx, key, member, score)
  note(tx, tx.sets, key, member, score)
end

function L.hget(tx, key, field)
  local of, value = tx.hashes[key], nil
  if of then
    value = of[field]
  end
  if value == nil then
    of = tx.known[key]
    if of then
      value = of[field]
    end
  end
  if value == nil then
    return call('HGET', key, field)
  end
  return value
end

function L.hincr(tx, key, field, by)
  L.hset(tx, key, field, tonumber(L.hget(tx, key, field) or 0) + by)
end

function L.zscore(tx, key, member)
  local of = tx.sets[key]
  local score = of and of[member]
  if score == nil then
    return call('ZSCORE', key, member)
  end
  return score
end

-- Tells what is in a field, until the next flush.
function L.know(tx, key, field, value)
  tx.known[key] = tx.known[key] or {}
  tx.known[key][field] = value
end

-- Looks many fields up in one go, for those who will ask for them one by one.
function L.prefetch(tx, key, fields)
  for n, value in ipairs(L.fetch(key, fields)) do
    L.know(tx, key, fields[n], value)
  end
end

-- Calls a command that looks at more of a key than one field.
function L.ask(tx, command, key, ...)
  if tx.hashes[key] or tx.sets[key] then
    L.flush(tx)
  end
  return call(command, key, ...)
end

-- Notes as arguments: what is to be set, as pairs, and what is to be removed.
local function sorted_out(notes, score_first)
  local set, gone, n = {}, {}, 0
  for field, value in pairs(notes) do
    if value then
      set[n + 1], set[n + 2] = score_first and value or field, score_first and field or value
      n = n + 2
    else
      gone[#gone + 1] = field
    end
  end
  return set, gone
end

-- Logs what would restore the fields that are noted.
local function log(tx, key, notes, is_set)
  local fields, before = {}, {}
  for field in pairs(notes) do
    fields[#fields + 1] = field
  end
  for n, value in ipairs(L.fetch(key, fields, is_set and 'ZMSCORE' or 'HMGET')) do
    before[fields[n]] = value
  end
  local set, gone = sorted_out(before, is_set)
  tx.undo[#tx.undo + 1] = {is_set and 'ZADD' or 'HSET', key, set}
  tx.undo[#tx.undo + 1] = {is_set and 'ZREM' or 'HDEL', key, gone}
end

local function write(tx, noted, is_set)
  for key, notes in pairs(noted) do
    if tx.undo then
      log(tx, key, notes, is_set)
    end
    local set, gone = sorted_out(notes, is_set)
    L.many(is_set and 'ZADD' or 'HSET', key, set)
    L.many(is_set and 'ZREM' or 'HDEL', key, gone)
  end
end

-- Writes what is new and what is noted.
function L.flush(tx)
  if tx.new then
    L.write_new(tx)
  end
  if tx.noted then
    write(tx, tx.hashes, false)
    write(tx, tx.sets, true)
    tx.hashes, tx.sets, tx.noted = {}, {}, false
  end
  tx.known, tx.looked = {}, nil
end

-- Writes pairs of which nothing was there before.
function L.add(tx, command, key, added)
  if added[1] then
    if tx.undo then
      tx.undo[#tx.undo + 1] = {command, key, added, is_new = true}
    end
    L.many(command, key, added)
  end
end

local function remove_added(command, key, added)
  local gone = {}
  for n = command == 'HSET' and 1 or 2, #added, 2 do
    gone[#gone + 1] = added[n]
  end
  L.many(command == 'HSET' and 'HDEL' or 'ZREM', key, gone)
end

-- Plays the log back. What failed halfway may have failed for its key, which then is not ours to restore.
function L.take_back(tx)
  local undo = tx.undo or {}
  for n = #undo, 1, -1 do
    pcall(undo[n].is_new and remove_added or L.many, unpack(undo[n]))
  end
end

-- The members of a set that begin with a prefix and have eight bytes more.
function L.behind(tx, key, prefix, limit)
  local last = '(' .. prefix .. string.rep('\255', 9)
  return L.ask(tx, 'ZRANGEBYLEX', key, '[' .. prefix, last, 'LIMIT', 0, limit or -1)
end
