-- Claiming and renewing.

local DUE_A_CLAIM = 500
local NAMES = 250  -- as in rules.py

-- Of workers that never sent a heartbeat, if there are many.
local function forget_names(w, but)
  if call('HLEN', w) <= NAMES then
    return
  end
  local silent, seen = {}, {}
  for _, field in ipairs(call('HKEYS', w)) do
    local kind, worker = string.sub(field, 1, 1), string.sub(field, 2)
    if kind == 's' then
      seen[worker] = true
    elseif worker ~= but then
      silent[#silent + 1] = worker
    end
  end
  local gone = {}
  for _, worker in ipairs(silent) do
    if not seen[worker] then
      gone[#gone + 1] = 'n' .. worker
    end
  end
  if #gone >= NAMES then
    L.many('HDEL', w, gone)
  end
end

-- Whether a queue is paused for a worker; and the mark of those who wait for room in it.
function L.is_paused(tx, queue, worker)
  local found = call('HMGET', L.at(tx, queue) .. 'q', 'paused', 'paused:' .. (worker or ''), 'awaited')
  return found[1] or (worker and found[2]), found[3]
end

-- Claims from the front of the line, after settling the timers that have passed. The second result is true when so
-- many were due that it is not known yet what may be claimed: then the call is to be made again. With `whole` it goes
-- on until it knows.
function L.lease(tx, request, whole)
  local queue, reply = request.queue, {}
  local q = L.at(tx, queue)
  local paused, awaited = L.is_paused(tx, queue, request.by)
  if paused then
    return reply, false
  end
  while true do
    local all, rest_are_leases = L.settle_due(tx, queue, request.most, DUE_A_CLAIM)
    if all then
      break
    end
    if not whole then
      if rest_are_leases and L.ask(tx, 'ZCARD', q .. 'r') > 0 then
        break
      end
      return reply, true
    end
  end
  L.flush(tx)
  local popped = request.limit > 0 and call('ZPOPMIN', q .. 'r', request.limit) or {}
  if #popped == 0 then
    return reply, false
  end
  local keys = {}
  for n = 1, #popped, 2 do
    keys[#keys + 1] = string.sub(popped[n], 9)
  end
  L.claim(tx, q, request, keys, reply)
  if awaited then
    L.mark(tx, 'rooms', queue)
  end
  if request.by and request.counted then
    if call('HINCRBY', q .. 'w', 'n' .. request.by, #keys) == #keys then  -- a new name
      forget_names(q .. 'w', request.by)
    end
  end
  return reply, false
end

function L.claim(tx, q, request, keys, reply)
  local till, queue = tx.now + request.timeout, request.queue
  local bodies, extras = L.fetch(tx.m, keys), L.extras(tx, keys)
  local first = L.pack_lease(queue, 1, till, tx.now, request.most, request.by)
  local leases, ends, score = {}, {}, L.text(till)
  for n, key in ipairs(keys) do
    local packed, token, record = extras[n] or false, 1, false
    local lease = first
    if packed then
      local x = cmsgpack.unpack(packed)
      token = (x.at or 0) + 1
      lease = L.pack_lease(queue, token, till, tx.now, request.most, request.by)
      if x.ex then  -- whether it has expired is decided when the lease ends
        call('ZREM', q .. 't', key)
      end
      if x.rid then
        L.mark(tx, 'runs', x.rid)
      end
      if request.ledger and x.dk then
        record = call('HGET', tx.root .. ':rec', request.ledger .. x.dk)
      end
    end
    leases[n * 2 - 1], leases[n * 2] = key, lease
    ends[n * 2 - 1], ends[n * 2] = score, key
    local at = n * 4
    reply[at - 3], reply[at - 2], reply[at - 1], reply[at] = key, bodies[n], packed, record
    if tx.journal then
      L.enter(tx, 'leased', queue, key, token, request.by)
    end
  end
  L.many('HSET', tx.l, leases)
  L.many('ZADD', q .. 'i', ends)
  if request.consume then
    for n, key in ipairs(keys) do
      L.ack(tx, L.message(key, bodies[n], extras[n], leases[n * 2]))
    end
  end
end

function L.renew(tx, args)
  local till, renewed = tx.now + args.timeout, {}
  for n, lease in ipairs(args.leases) do
    local queue, key, token = unpack(lease)
    local packed = call('HGET', tx.l, key)
    local l = packed and L.lease_of(packed)
    if l and l.queue == queue and l.token == token then
      call('HSET', tx.l, key, L.pack_lease(queue, token, till, l.since, l.most, l.by))
      call('ZADD', L.at(tx, queue) .. 'i', till, key)
      L.enter(tx, 'renewed', queue, key, token, l.by)
      renewed[n] = '1'
    else
      renewed[n] = '0'
    end
  end
  return {table.concat(renewed), L.text(till)}
end
