-- Order is the order of the commits: a queue knows the newest message that it ever had (`:newest`), and one that comes
-- with a key that is not newer gets another.
--
-- Keys are compared and counted by their halves: Lua compares texts by the locale of the server.

local HALF, SPREAD = 4294967296, 4096

function L.is_newer(key, other)
  local high, low = struct.unpack('>I4I4', key)
  local its_high, its_low = struct.unpack('>I4I4', other)
  return high > its_high or high == its_high and low > its_low
end

-- Whether one place in a line is before another: by when it became available, then by key.
function L.is_before(place, other)
  local at, its = (struct.unpack('>d', place)), (struct.unpack('>d', other))
  return at < its or at == its and L.is_newer(string.sub(other, 9), string.sub(place, 9))
end

-- Keys in a row that are newer than `newest` and that no message has. Clients mint keys with random ends; that of
-- `minted` says how far from it they begin, so that they seldom meet those that a client is about to bring.
function L.keys_above(m, newest, minted, count)
  local _, random = struct.unpack('>I4I4', minted)
  while true do
    local high, low = struct.unpack('>I4I4', newest)
    local keys, is_free = {}, true
    low = low + random % SPREAD
    for n = 1, count do
      keys[n] = struct.pack('>I4I4', high + math.floor((low + n) / HALF), (low + n) % HALF)
    end
    for _, body in ipairs(L.fetch(m, keys)) do
      is_free = is_free and not body
    end
    if is_free then
      return keys
    end
    newest = keys[count]
  end
end

-- The newest message that any of the queues ever had where a batch may be stored.
local function newest_of(tx, batch, limits)
  local queues, newest = {}, nil
  for n, queue in ipairs(batch.queues) do
    queues[n] = queue
  end
  for _, limit in pairs(limits) do
    queues[#queues + 1] = limit.spill
  end
  for _, one in ipairs(L.fetch(tx.root .. ':newest', queues)) do
    if one and (not newest or L.is_newer(one, newest)) then
      newest = one
    end
  end
  return newest
end

-- The keys for the messages of a batch, and the first of them if they are not those it came with. `taken` says which of
-- those are in use: what is stored already is not stored again under another.
function L.in_commit_order(tx, batch, limits, keys, taken)
  local newest = newest_of(tx, batch, limits)
  tx.newest = batch.newest
  if not newest or L.is_newer(batch.oldest, newest) then
    return keys, false
  end
  local newer, ordered = L.keys_above(tx.m, newest, batch.oldest, #keys), {}
  tx.newest, tx.renamed, tx.given = newer[#keys], {}, {}
  for n, key in ipairs(keys) do
    if batch.keep or taken[n] or tx.renamed[key] then
      L.refuse('IdTaken', key, newest)
    end
    ordered[n] = newer[batch.nth and batch.nth[n] or n]
    tx.renamed[key], tx.given[ordered[n]] = ordered[n], key
  end
  return ordered, newer[1]
end

-- A refusal that speaks of messages by the keys they came with.
function L.as_given(tx, refusal)
  local said = {}
  for n, one in ipairs(refusal) do
    said[n] = tx and tx.given and tx.given[one] or one
  end
  return said
end

-- The message of this commit that a key it came with stands for, or any other that has it.
function L.named(tx, key)
  key = tx.renamed and tx.renamed[key] or key
  return tx.alias[key] or key
end
