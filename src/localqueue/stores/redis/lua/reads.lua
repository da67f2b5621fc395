-- Reads: none of them changes anything.

function L.get(tx, args)
  return L.show(tx, {args.key})
end

-- Messages by ascending id behind `after` and up to `last`, of one live state or of all.
local function by_id(tx, q, state, after, limit, last)
  local reply, from, left = {}, after and '(' .. after or '-', limit
  local to = last and '[' .. last or '+'
  local set = q .. ((not state or state == 'ready' or state == 'inflight') and 'a' or state)
  while left ~= 0 do
    local size = (left > 0 and not state) and math.min(left, CHUNK) or CHUNK
    local keys = call('ZRANGEBYLEX', set, from, to, 'LIMIT', 0, size)
    if #keys == 0 then
      break
    end
    from = '(' .. keys[#keys]
    local found = L.show(tx, keys)
    for n = 1, #found, 4 do
      local packed, lease = found[n + 2], found[n + 3]
      local is = lease and 'inflight' or packed and cmsgpack.unpack(packed).st or 'ready'
      if left ~= 0 and (not state or state == is) then
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
  if after then
    local rank = call('ZRANK', q .. state, after)
    if not rank then
      return {}
    end
    from = rank + 1
  end
  if limit ~= 0 then
    keys = call('ZRANGE', q .. state, from, limit > 0 and from + limit - 1 or -1)
  end
  return L.show(tx, keys)
end

function L.scan(tx, args)
  local q, state = L.at(tx, args.queue), args.state
  if ENDINGS[state or ''] then
    return by_end(tx, q, state, args.after, args.limit)
  end
  return by_id(tx, q, state, args.after, args.limit, args.last)
end

-- The last of each of about equal parts of a queue's messages.
function L.splits(tx, args)
  local all, found = L.at(tx, args.queue) .. 'a', {}
  local total = call('ZCARD', all)
  local parts = math.min(args.parts, total)
  for n = 1, parts do
    local at = math.floor(total * n / parts) - 1
    found[n] = call('ZRANGE', all, at, at)[1]
  end
  return found
end

function L.run(tx, args)
  local run = tx.root .. ':run:' .. args.run
  local meta = call('HMGET', run, 'total', 'done')
  if not meta[1] then
    return false
  end
  local counts, keys = {}, call('ZRANGE', run .. ':m', 0, -1)
  local extras, leases = L.fetch(tx.x, keys), L.fetch(tx.l, keys)
  for n = 1, #keys do
    local state = leases[n] and 'inflight' or cmsgpack.unpack(extras[n]).st or 'ready'
    counts[state] = (counts[state] or 0) + 1
  end
  return {tonumber(meta[1]), tonumber(meta[2] or '0'), unpack(L.in_order(counts))}
end

function L.run_messages(tx, args)
  local set = tx.root .. ':run:' .. args.run .. ':m'
  return L.show(tx, call('ZRANGEBYLEX', set, args.after and '(' .. args.after or '-', '+', 'LIMIT', 0, args.limit))
end

function L.upstream(tx, args)
  local body, found = call('HGET', tx.m, args.key), {}
  if body and string.sub(body, 1, QUEUE) == args.queue then
    for n, edge in ipairs(L.behind(tx, tx.root .. ':dn', args.key)) do
      found[n] = string.sub(edge, 9)
    end
  end
  return found
end

function L.records(tx, args)
  local kind, recs = L.prefix(args.kind), tx.root .. ':recs'
  local fields = call('ZRANGEBYLEX', recs, '(' .. kind .. args.after, '(' .. kind .. '\255', 'LIMIT', 0, args.limit)
  local values, reply = L.fetch(tx.root .. ':rec', fields), {}
  for n, field in ipairs(fields) do
    reply[n * 2 - 1], reply[n * 2] = string.sub(field, #kind + 1), values[n]
  end
  return reply
end

function L.subscriptions(tx, args)
  local q = L.at(tx, args.queue)
  return {call('HGET', q .. 'q', 'subs') or '0', call('HGETALL', q .. 'subs')}
end

function L.prunable(tx, args)
  return call('ZCOUNT', L.at(tx, args.queue) .. args.state, '-inf', tx.now - args.older_than)
end
