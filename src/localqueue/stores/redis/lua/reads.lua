-- Reads: none of them changes anything.

local STATES = {'ready', 'delayed', 'inflight', 'waiting', 'blocked', 'dead', 'expired', 'cancelled'}

function L.get(tx, read)
  local reply, key = {}, read.text()
  L.show(tx, reply, key)
  return reply
end

-- Messages by ascending id behind `after` and up to `last`, of one live state or of all.
local function by_id(tx, q, state, after, limit, last)
  local reply, from, left = {}, after == '' and '-' or '(' .. after, limit
  local to = last == '' and '+' or '[' .. last
  local set = q .. ((state == '' or state == 'ready' or state == 'inflight') and 'a' or state)
  while left ~= 0 do
    local size = (left > 0 and state == '') and math.min(left, CHUNK) or CHUNK
    local keys = call('ZRANGEBYLEX', set, from, to, 'LIMIT', 0, size)
    if #keys == 0 then
      break
    end
    from = '(' .. keys[#keys]
    local found = {}
    L.show_all(tx, found, keys)
    for n = 1, #found, 4 do
      local packed, lease = found[n + 2], found[n + 3]
      local is = lease and 'inflight' or packed and cmsgpack.unpack(packed).st or 'ready'
      if left ~= 0 and (state == '' or state == is) then
        local at = #reply
        reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = found[n], found[n + 1], packed, lease
        left = left - 1
      end
    end
  end
  return reply
end

-- Messages that left delivery, by when they did.
local function by_end(tx, q, state, after, limit)
  local from, keys = 0, {}
  if after ~= '' then
    local rank = call('ZRANK', q .. state, after)
    if not rank then
      return {}
    end
    from = rank + 1
  end
  if limit ~= 0 then
    keys = call('ZRANGE', q .. state, from, limit > 0 and from + limit - 1 or -1)
  end
  local reply = {}
  L.show_all(tx, reply, keys)
  return reply
end

function L.scan(tx, read)
  local q, state, after, limit = L.at(tx, read.text()), read.text(), read.text(), read.number()
  if ENDINGS[state] then
    return by_end(tx, q, state, after, limit)
  end
  return by_id(tx, q, state, after, limit, read.text())
end

-- The last of each of about equal parts of a queue's messages.
function L.splits(tx, read)
  local all, parts, found = L.at(tx, read.text()) .. 'a', read.number(), {}
  local total = call('ZCARD', all)
  parts = math.min(parts, total)
  for n = 1, parts do
    local at = math.floor(total * n / parts) - 1
    found[n] = call('ZRANGE', all, at, at)[1]
  end
  return found
end

function L.run(tx, read)
  return L.run_counts(tx, read.text())
end

function L.run_counts(tx, rid)
  local run = tx.root .. ':run:' .. rid
  local meta = call('HMGET', run, 'total', 'done')
  if not meta[1] then
    return false
  end
  local counts, keys = {}, call('ZRANGE', run .. ':m', 0, -1)
  local extras, leases = L.fetch(tx.x, keys), L.fetch(tx.l, keys)
  for n = 1, #keys do
    local state = leases[n] and 'inflight' or cmsgpack.unpack(extras[n]).st
    counts[state] = (counts[state] or 0) + 1
  end
  local reply = {tonumber(meta[1]), tonumber(meta[2] or '0')}
  for n, state in ipairs(STATES) do
    reply[n + 2] = counts[state] or 0
  end
  return reply
end

function L.run_messages(tx, read)
  local set, after, limit = tx.root .. ':run:' .. read.text() .. ':m', read.text(), read.number()
  local keys = call('ZRANGEBYLEX', set, after == '' and '-' or '(' .. after, '+', 'LIMIT', 0, limit)
  local reply = {}
  L.show_all(tx, reply, keys)
  return reply
end

function L.upstream(tx, read)
  local queue, key = read.text(), read.text()
  local body, found = call('HGET', tx.m, key), {}
  if body and string.sub(body, 1, QUEUE) == queue then
    for n, edge in ipairs(call('ZRANGEBYLEX', tx.root .. ':dn', '[' .. key, '(' .. key .. string.rep('\255', 9))) do
      found[n] = string.sub(edge, 9)
    end
  end
  return found
end

function L.records(tx, read)
  local kind, after, limit = L.prefix(read.text()), read.text(), read.number()
  local fields = call('ZRANGEBYLEX', tx.root .. ':recs', '(' .. kind .. after, '(' .. kind .. '\255', 'LIMIT', 0, limit)
  local values, reply = L.fetch(tx.root .. ':rec', fields), {}
  for n, field in ipairs(fields) do
    reply[n * 2 - 1], reply[n * 2] = string.sub(field, #kind + 1), values[n]
  end
  return reply
end

function L.subscriptions(tx, read)
  local q = L.at(tx, read.text())
  return {call('HGET', q .. 'q', 'subs') or '0', call('HGETALL', q .. 'subs')}
end

function L.prunable(tx, read)
  return call('ZCOUNT', L.at(tx, read.text()) .. read.text(), '-inf', tx.now - read.number())
end

function L.events(tx, read)
  local after, limit, queue = read.number(), read.number(), read.text()
  local from, found = string.format('(%.0f-0', after), {}
  while #found ~= limit do
    local size = (limit > 0 and queue == '') and math.min(CHUNK, limit - #found) or CHUNK
    local entries = call('XRANGE', tx.root .. ':log', from, '+', 'COUNT', size)
    if #entries == 0 then
      break
    end
    for _, entry in ipairs(entries) do
      if #found ~= limit and (queue == '' or entry[2][6] == queue) then
        found[#found + 1] = entry
      end
    end
    from = '(' .. entries[#entries][1]
  end
  return found
end

-- The number of the last entry, and the name of the first that is kept.
function L.journal_span(tx)
  local first = call('XRANGE', tx.root .. ':log', '-', '+', 'COUNT', 1)[1]
  return {call('HGET', tx.root, 'seq') or '0', first and first[1] or false}
end

-- Whether one of the queues has something to lease for a worker, and else when the next timer is.
function L.look(tx, read)
  local worker, next_due = read.optional(), nil
  for _ = 1, read.number() do
    local queue = read.text()
    if not L.is_paused(tx, queue, worker) then
      local q = L.at(tx, queue)
      if call('ZCARD', q .. 'r') > 0 then
        return {1, false}
      end
      for _, timers in ipairs({'i', 't'}) do
        local due = tonumber(call('ZRANGE', q .. timers, 0, 0, 'WITHSCORES')[2])
        if due and due <= tx.now then
          return {1, false}
        end
        next_due = due and math.min(due, next_due or due) or next_due
      end
    end
  end
  return {0, next_due and L.text(next_due - tx.now) or false}
end
