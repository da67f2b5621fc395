-- Names, times and packed values that every other file uses. All functions of the library hang on L.
--
-- Keys of a namespace begin with its root, `lq:{<digest>}`, so that they share a hash slot:
--   <root>        hash: version, name, secret, journal settings and the number of its last entry
--   :names        hash: queue -> its name          :m     hash: message -> body (written once)
--   :x            hash: message -> what is more to it than a body: state, attempts, times, keys, history
--   :l            hash: message -> lease           :gone  hash: message removed without an ack -> why
--   :up, :dn      dependencies, by upstream and by dependent
--   :rec, :recs   records, and their keys in order :log   the journal, a stream
--   :newest       hash: queue -> the newest message that it ever had, or a newer key
--   :run:<run>    hash of a run                    :run:<run>:m  its messages, :awaited  that somebody waits for it
-- and for each queue, after <root>:<queue>:
--   r  the ready line: score = minus priority, member = when it became available, then the message
--   i  leases by their end                         t  other timers by when they are due
--   a  all messages by id                          d  dedupe key -> live message
--   o  ordering key -> the message that holds it   b  messages blocked behind an ordering key
--   w  workers                                     q  settings: pauses, dropped, subscriptions, marks
--   subs  subscribers                              delayed, waiting, blocked, dead, expired, cancelled
--
-- Messages are 8 bytes, big-endian, and never numbers: a Lua number holds 53 bits. Queues and runs are digests of
-- their names, 22 characters.

local L = {}
local call  -- redis.call, which is not there yet while the library is loaded; see library.lua
local VERSION = '2'
local QUEUE = 22
local HISTORY = 20
local CHUNK = 1000
local MANY = 2147483647

local ENDINGS = {dead = 'dead_lettered', expired = 'expired', cancelled = 'cancelled'}
local HEADS = {ready = true, delayed = true, inflight = true}
local TYPES = {
  enqueued = 1, leased = 2, renewed = 3, acked = 4, released = 5, dead_lettered = 6, expired = 7, lease_expired = 8,
  cancelled = 9, requeued = 10, purged = 11, pruned = 12, dropped = 13,
}

-- A refusal: the commit is undone and Python raises the exception of that name.
function L.refuse(name, ...)
  error({refusal = {name, ...}})
end

-- A number as text that keeps every bit of it.
function L.text(number)
  return string.format('%.17g', number)
end

-- A time as bytes that sort like the times.
function L.place(at)
  return struct.pack('>d', at > 0 and at or 0)
end

function L.score(body)
  return -struct.unpack('>i8', body, QUEUE + 9)
end

-- A text in front of something else, so that no text is the beginning of another.
function L.prefix(text)
  return struct.pack('>I4', #text) .. text
end

function L.clock()
  local t = call('TIME')
  return tonumber(t[1]) + tonumber(t[2]) / 1e6
end

-- Why a call is not for this namespace: its data is of another version, or it was removed and made anew since.
function L.unfit(meta, args)
  if meta[1] ~= VERSION then
    return meta[1] or ''
  end
  return meta[2] ~= args[#args] and '' or nil
end

-- What one call knows. The first argument is the time of a test, or '' for the server's clock; the last is the secret
-- of the namespace, by which it is known to be the one that was opened.
function L.open(keys, args)
  local root = keys[1]
  local meta = call('HMGET', root, 'version', 'secret', 'journal')
  local unfit = L.unfit(meta, args)
  if unfit then
    L.refuse('Version', unfit)
  end
  return {
    root = root, m = root .. ':m', x = root .. ':x', l = root .. ':l',
    now = tonumber(args[1]) or L.clock(),
    journal = meta[3] == '1' and {} or nil,
    hashes = {}, sets = {}, known = {},  -- see writes.lua
  }
end

-- Calls a command with many values without overflowing the stack. Their number must be even where they are pairs.
function L.many(command, key, values)
  local count = #values
  for from = 1, count, CHUNK do
    call(command, key, unpack(values, from, math.min(from + CHUNK - 1, count)))
  end
end

-- What a command that answers for each of many fields says of them.
function L.fetch(key, fields, command)
  local count = #fields
  if count == 0 then
    return {}
  end
  if count <= CHUNK then
    return call(command or 'HMGET', key, unpack(fields))
  end
  local found = {}
  for from = 1, count, CHUNK do
    local part = call(command or 'HMGET', key, unpack(fields, from, math.min(from + CHUNK - 1, count)))
    for n = 1, #part do
      found[from + n - 1] = part[n]
    end
  end
  return found
end
