-- The keys of a queue, the time, and how an entry is named in the sorted sets.
--
-- The queue is a stream of its own name. Beside it, in the same hash slot:
--   {queue}:leases    entries that a receiver holds, by when their lease ends
--   {queue}:returned  entries that were given back, by when they are due
--   {queue}:later     a stream of messages that were sent with a delay; {queue}:delayed says when each is due
--   {queue}:dead      a stream of dead letters
--   {queue}:signal    a stream of one entry: it changes when whoever waits has to look again
-- Entries that are held or given back are pending in the group.
--
-- The leases have one more member that never ends. Its long name keeps the set from being a list, in which every lease
-- would be looked for from the beginning.
--
-- In a sorted set an entry is `<id>:<deliveries>`, its sequence filled up with zeros so that equal scores keep the order
-- of the stream. That name is the receipt: it is gone when the entry is settled or delivered again.

local RETURNED = 'localqueue-returned' -- the consumer of what was given back

local FOREVER = 'a name of more than sixty-four characters, so that this sorted set is not kept as a list'
local ENDING = '(+inf'

local function key(queue, part)
  return '{' .. queue .. '}:' .. part
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function padded(id)
  local sub, dash = string.sub, string.find(id, '-', 1, true)
  return sub(id, 1, dash) .. sub('0000000000', #id - dash + 1) .. sub(id, dash + 1)
end

local function named(id, count)
  return padded(id) .. ':' .. count
end

local function parts(name)
  local id, count = string.match(name, '^(.+):(%d+)$')
  return id, tonumber(count)
end

local function signal(queue)
  redis.call('XADD', key(queue, 'signal'), 'MAXLEN', '1', '*', 'look', 'again')
end

-- A row of XINFO, which is names and values one after the other.
local function row(flat)
  local found = {}
  for at = 1, #flat, 2 do
    found[flat[at]] = flat[at + 1]
  end
  return found
end

-- The group as the server describes it; nil where there is none.
local function group_of(queue, group)
  local groups = redis.pcall('XINFO', 'GROUPS', queue)
  if groups.err then
    if string.find(groups.err, 'no such key', 1, true) then
      return nil
    end
    error(groups.err)
  end
  for _, flat in ipairs(groups) do
    local found = row(flat)
    if found['name'] == group then
      return found
    end
  end
  return nil
end

-- In pieces: a command takes only so many arguments from Lua.
local function in_pieces(list, command, ...)
  for first = 1, #list, 4000 do
    local call = { command, ... }
    for at = first, math.min(first + 3999, #list) do
      call[#call + 1] = list[at]
    end
    redis.call(unpack(call))
  end
end
