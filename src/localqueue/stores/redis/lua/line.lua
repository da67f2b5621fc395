-- Moving messages between states, with everything that follows from it.

-- Lists a message wherever its state belongs, or takes it from there: a score or a value of false removes.
function L.list(tx, msg, is_in)
  local q, state, x, key, zero = L.at(tx, msg.queue), msg.state, msg.x, msg.key, is_in and 0
  if state == 'inflight' then  -- a lease is given elsewhere
    L.hset(tx, tx.l, key, false)
    L.zset(tx, q .. 'i', key, false)
  elseif state == 'ready' then
    L.zset(tx, q .. 'r', L.place(msg.available) .. key, is_in and L.score(msg.body))
  else
    L.zset(tx, q .. state, key, is_in and (x.en or 0))
  end
  if state == 'blocked' then
    L.zset(tx, q .. 'b', L.prefix(x.ok) .. key, zero)
  end
  local due = L.due_at(state, msg.available, x.ex)
  if due then
    L.zset(tx, q .. 't', key, is_in and due)
  end
  if is_in and (due or state == 'ready') then
    L.mark(tx, 'wakes', msg.queue)
  elseif not is_in and (state == 'ready' or state == 'blocked') then
    L.mark(tx, 'rooms', msg.queue)
  end
  if x.ok and HEADS[state] then
    L.hset(tx, q .. 'o', x.ok, is_in and key)
  end
  if x.dk and not ENDINGS[state] then
    L.hset(tx, q .. 'd', x.dk, is_in and key)
  end
  if x.rid then
    L.mark(tx, 'runs', x.rid)
  end
end

-- Puts a message into another state than inflight, ending its lease.
function L.move(tx, msg, state, available, expires, err)
  local ends, was_ended, held = ENDINGS[state], ENDINGS[msg.state], L.holds_key(msg)
  tx.loads = nil
  if ends and not was_ended and msg.said ~= ends then
    L.enter(tx, ends, msg.queue, msg.key, msg.attempts, nil, nil, err or (state == 'dead' and msg.x.er or nil))
  end
  L.list(tx, msg, false)
  local x = msg.x
  x.st, x.at, x.av, x.ex = state, msg.attempts, available, expires
  if err then
    x.er, x.fa = err, tx.now
  end
  x.en = ends and tx.now or nil
  msg.state, msg.available, msg.lease = state, available, nil
  L.save(tx, msg)
  L.list(tx, msg, true)
  if ends and held then
    L.free_key(tx, msg.queue, x.ok)
  end
end

function L.landing(tx, available, expires, waiting, busy)
  if expires and expires <= tx.now then
    return 'expired'
  end
  if waiting > 0 then
    return 'waiting'
  end
  if busy then
    return 'blocked'
  end
  return available > tx.now and 'delayed' or 'ready'
end

function L.key_busy(tx, queue, ordering)
  return ordering ~= nil and L.hget(tx, L.at(tx, queue) .. 'o', ordering) ~= false
end

-- Returns a message to delivery: ready, or whatever stands in its way.
function L.land(tx, msg, available, expires, waiting)
  local busy = not L.holds_key(msg) and L.key_busy(tx, msg.queue, msg.x.ok)
  L.move(tx, msg, L.landing(tx, available, expires, waiting or 0, busy), available, expires)
end

-- The head of an ordering key left: the next message of the key takes its place.
function L.free_key(tx, queue, ordering)
  local blocked, from = L.at(tx, queue) .. 'b', L.prefix(ordering)
  while true do
    local first = L.behind(tx, blocked, from, 1)[1]
    local msg = first and L.current(tx, string.sub(first, -8))
    if not msg then
      return
    end
    local state = L.landing(tx, msg.available, msg.x.ex, 0, false)
    if state == 'expired' then
      L.remember(tx, msg, 'expired')
    end
    L.move(tx, msg, state, msg.available, msg.x.ex)
    if state ~= 'expired' then
      return
    end
  end
end

-- Forgets whom a message waits for.
function L.cut(tx, key)
  local waits = L.behind(tx, tx.root .. ':dn', key)
  for _, edge in ipairs(waits) do
    L.zset(tx, tx.root .. ':dn', edge, false)
    L.zset(tx, tx.root .. ':up', string.sub(edge, 9) .. key, false)
  end
end

-- Removes a message with all that belongs to it, but not the messages that wait for it.
function L.delete(tx, msg)
  local held, x = L.holds_key(msg), msg.x
  L.list(tx, msg, false)
  L.hset(tx, tx.m, msg.key, false)
  L.zset(tx, L.at(tx, msg.queue) .. 'a', msg.key, false)
  if next(x) then
    L.hset(tx, tx.x, msg.key, false)
  end
  if (x.wo or 0) > 0 then
    L.cut(tx, msg.key)
  end
  if x.rid then
    L.zset(tx, tx.root .. ':run:' .. x.rid .. ':m', msg.key, false)
  end
  if held then
    L.free_key(tx, msg.queue, x.ok)
  end
end

function L.mark_removed(tx, msg, why)
  L.hset(tx, tx.root .. ':gone', msg.key, TYPES[why])
  L.forget_removed(tx, 1)
  L.note(tx, why, msg)
end

-- The first key that a message which is gone is remembered by: what was minted seven days ago (see ids.py).
local EPOCH_US, REMEMBERED_US = 1577836800000000, 7 * 86400 * 1000000

function L.remembered_from(tx)
  if not tx.horizon then
    local us = math.max(math.floor(tx.now * 1000000) - REMEMBERED_US - EPOCH_US, 0)
    tx.horizon = struct.pack('>I4I4', math.floor(us / 1048576), (us % 1048576) * 4096)
  end
  return tx.horizon
end

-- Looks at some runs, and forgets those that nobody has touched for long and that have no message any more. `mine` are
-- those that this call puts messages into.
local KNOWN = 7 * 86400

function L.forget_runs(tx, mine)
  local runs = tx.root .. ':runs'
  for _, rid in ipairs(call('HRANDFIELD', runs, 4)) do
    local run = tx.root .. ':run:' .. rid
    local at = not mine[rid] and (call('HGET', run, 'at') or call('HSET', run, 'at', L.text(tx.now)) and nil)
    if at and tonumber(at) < tx.now - KNOWN and call('EXISTS', run .. ':m') == 0 then
      call('UNLINK', run)
      call('HDEL', runs, rid)
    end
  end
end

-- For each message that is remembered, looks at some others and forgets those that were remembered long enough.
function L.forget_removed(tx, count)
  local from, old = L.remembered_from(tx), {}
  for _, key in ipairs(call('HRANDFIELD', tx.root .. ':gone', math.min(4 * count, CHUNK))) do
    if key < from then
      old[#old + 1] = key
    end
  end
  if #old > 0 then
    call('HDEL', tx.root .. ':gone', unpack(old))
  end
end
