-- A message in hand: its body, what is more to it, and its lease.

function L.lease_of(packed)
  local token, till, since, most, at = struct.unpack('>I4ddi4', packed, QUEUE + 1)
  local by = string.sub(packed, at)
  return {
    queue = string.sub(packed, 1, QUEUE), token = token, till = till, since = since,
    most = most >= 0 and most or nil, by = by ~= '' and string.sub(by, 2) or nil,
  }
end

function L.pack_lease(queue, token, till, since, most, by)
  return queue .. struct.pack('>I4ddi4', token, till, since, most and math.min(most, MANY) or -1)
    .. (by and '=' .. by or '')
end

function L.message(key, body, packed, lease)
  local x = packed and cmsgpack.unpack(packed) or {}
  local msg = {
    key = key, body = body, x = x, queue = string.sub(body, 1, QUEUE),
    state = x.st or 'ready', attempts = x.at or 0,
  }
  msg.available = x.av or (struct.unpack('>d', body, QUEUE + 1))
  if lease then
    local l = L.lease_of(lease)
    msg.state, msg.attempts, msg.lease = 'inflight', l.token, l
  end
  return msg
end

-- What is more to each of these messages; nothing for all of them where no message has anything.
function L.extras(tx, keys)
  if call('HLEN', tx.x) == 0 then
    return {}
  end
  return L.fetch(tx.x, keys)
end

function L.current(tx, key)
  local body = L.hget(tx, tx.m, key)
  if not body then
    return nil
  end
  return L.message(key, body, L.hget(tx, tx.x, key), L.hget(tx, tx.l, key))
end

-- What Python makes messages of: four values for each.
function L.show(tx, keys, reply)
  reply = reply or {}
  local bodies, extras, leases = L.fetch(tx.m, keys), L.fetch(tx.x, keys), L.fetch(tx.l, keys)
  for n = 1, #keys do
    local at = #reply
    reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] = keys[n], bodies[n], extras[n], leases[n]
  end
  return reply
end

function L.at(tx, queue)
  return tx.root .. ':' .. queue .. ':'
end

function L.save(tx, msg)
  L.hset(tx, tx.x, msg.key, cmsgpack.pack(msg.x))
end

function L.holds_key(msg)
  return msg.x.ok ~= nil and HEADS[msg.state] == true
end

-- When the store has to look at a message again by itself, other than for the end of a lease.
function L.due_at(state, available, expires)
  if state == 'delayed' then
    return expires and math.min(available, expires) or available
  end
  if state == 'ready' or state == 'waiting' or state == 'blocked' then
    return expires
  end
  return nil
end

-- An entry of the journal, and a transition for a caller that observes.
function L.enter(tx, kind, queue, key, attempt, by, since, err, payload, options)
  if tx.journal then
    tx.journal[#tx.journal + 1] = {
      TYPES[kind], queue, key, attempt or false, by or false, err or false, payload or false, options or false,
    }
  end
  if tx.notes and kind ~= 'enqueued' and kind ~= 'leased' and kind ~= 'renewed' and kind ~= 'acked' then
    local note = {kind, queue, key, attempt or 0, by or false, since and L.text(since) or false, err or false}
    tx.notes[#tx.notes + 1] = note
  end
end

function L.note(tx, kind, msg, err)
  local l = msg.lease or {}
  L.enter(tx, kind, msg.queue, msg.key, msg.attempts, l.by, l.since, err)
end

-- Adds to a message's history, forgetting what is older than the last attempts. Whoever calls it saves the message.
function L.remember(tx, msg, event, err)
  L.note(tx, event, msg, err)
  local l = msg.lease or {}
  local history = msg.x.hi or {}
  history[#history + 1] = {msg.attempts, event, tx.now, l.since or false, l.by or false, err or false}
  if #history > HISTORY then
    table.remove(history, 1)
  end
  msg.x.hi = history
  msg.said = event
end

-- Somebody may have to be told: `wakes` of a queue that a message came to or a timer was set for, `rooms` of one that may
-- have room now, `runs` of a run that changed.
function L.mark(tx, kind, name)
  tx[kind] = tx[kind] or {}
  tx[kind][name] = true
end
