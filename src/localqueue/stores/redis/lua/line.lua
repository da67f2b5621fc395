-- Moving messages between states, with everything that follows from it.

function L.put_in(tx, msg)
  local q, state, x = L.at(tx, msg.queue), msg.state, msg.x
  if state == 'ready' then
    L.zadd(tx, q .. 'r', L.score(msg.body), L.place(msg.available) .. msg.key)
    L.came(tx, msg.queue)
  else
    L.zadd(tx, q .. state, x.en or 0, msg.key)
    if state == 'blocked' then
      L.zadd(tx, q .. 'b', 0, L.prefix(x.ok) .. msg.key)
    end
  end
  local due = L.due_at(state, msg.available, x.ex)
  if due then
    L.zadd(tx, q .. 't', due, msg.key)
    L.came(tx, msg.queue)
  end
  if x.ok and (state == 'ready' or state == 'delayed') then
    L.hset(tx, q .. 'o', x.ok, msg.key)
  end
  if x.dk and not ENDINGS[state] then
    L.hset(tx, q .. 'd', x.dk, msg.key)
  end
  if x.rid then
    L.of_run(tx, x.rid)
  end
end

function L.take_out(tx, msg)
  local q, state, x = L.at(tx, msg.queue), msg.state, msg.x
  if state == 'inflight' then
    L.hdel(tx, tx.l, msg.key)
    L.zrem(tx, q .. 'i', msg.key)
  elseif state == 'ready' then
    L.zrem(tx, q .. 'r', L.place(msg.available) .. msg.key)
    L.left(tx, msg.queue)
  else
    L.zrem(tx, q .. state, msg.key)
    if state == 'blocked' then
      L.zrem(tx, q .. 'b', L.prefix(x.ok) .. msg.key)
      L.left(tx, msg.queue)
    end
  end
  if L.due_at(state, msg.available, x.ex) then
    L.zrem(tx, q .. 't', msg.key)
  end
  if x.ok and HEADS[state] then
    L.hdel(tx, q .. 'o', x.ok)
  end
  if x.dk and not ENDINGS[state] then
    L.hdel(tx, q .. 'd', x.dk)
  end
  if x.rid then
    L.of_run(tx, x.rid)
  end
end

-- Puts a message into another state than inflight, ending its lease.
function L.move(tx, msg, state, available, expires, err)
  local ends, was_ended, held = ENDINGS[state], ENDINGS[msg.state], L.holds_key(msg)
  tx.loads = nil
  if ends and not was_ended and msg.said ~= ends then
    L.enter(tx, ends, msg.queue, msg.key, msg.attempts, nil, nil, err or (state == 'dead' and msg.x.er or nil))
  end
  L.take_out(tx, msg)
  local x = msg.x
  x.st, x.at, x.av, x.ex = state, msg.attempts, available, expires
  if err then
    x.er, x.fa = err, tx.now
  end
  x.en = ends and tx.now or nil
  msg.state, msg.available, msg.lease = state, available, nil
  L.save(tx, msg)
  L.put_in(tx, msg)
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
    L.zrem(tx, tx.root .. ':dn', edge)
    L.zrem(tx, tx.root .. ':up', string.sub(edge, 9) .. key)
  end
end

-- Removes a message with all that belongs to it, but not the messages that wait for it.
function L.delete(tx, msg)
  local held, x = L.holds_key(msg), msg.x
  L.take_out(tx, msg)
  L.hdel(tx, tx.m, msg.key)
  L.zrem(tx, L.at(tx, msg.queue) .. 'a', msg.key)
  if next(x) then
    L.hdel(tx, tx.x, msg.key)
  end
  if (x.wo or 0) > 0 then
    L.cut(tx, msg.key)
  end
  if x.rid then
    L.zrem(tx, tx.root .. ':run:' .. x.rid .. ':m', msg.key)
  end
  if held then
    L.free_key(tx, msg.queue, x.ok)
  end
end

function L.mark_removed(tx, msg, why)
  L.hset(tx, tx.root .. ':gone', msg.key, TYPES[why])
  L.note(tx, why, msg)
end
