-- Delayed messages that became available, leases and lives that ran out. Nothing runs in the background: the first
-- claim (or bounded put) after a timer passed settles it, a bounded number at a time.

local TIMERS = {'i', 't'}  -- ends of leases, and all others
local EXHAUSTED = '{"type":"AttemptsExhausted","module":"localqueue","message":"delivered %d times without an ack; '
  .. 'after the last delivery %s"}'

function L.exhausted(used, last)
  return string.format(EXHAUSTED, used, last)
end

function L.is_due(tx, msg)
  local due = msg.lease and msg.lease.till or L.due_at(msg.state, msg.available, msg.x.ex)
  return due ~= nil and due <= tx.now
end

function L.fall(tx, key, max_attempts)
  local msg = L.current(tx, key)
  if not msg or not L.is_due(tx, msg) then  -- an earlier one of this pass has moved it
    return
  end
  local expires = msg.x.ex
  local outlived = expires ~= nil and expires <= tx.now
  if not msg.lease then
    if outlived then
      L.remember(tx, msg, 'expired')
      L.move(tx, msg, 'expired', msg.available, expires)
    else
      L.move(tx, msg, msg.state == 'delayed' and 'ready' or msg.state, msg.available, expires)
    end
    return
  end
  local used, most, till = msg.attempts - (msg.x.fo or 0), msg.lease.most or max_attempts, msg.lease.till
  if most and used >= most then
    local err = L.exhausted(used, 'its lease expired')
    L.remember(tx, msg, 'lease_expired', err)
    L.move(tx, msg, 'dead', till, expires, err)
    return
  end
  L.remember(tx, msg, 'lease_expired')
  L.move(tx, msg, outlived and 'expired' or 'ready', till, expires)
end

local function passed_before(one, other)
  return one.at < other.at or (one.at == other.at and L.is_newer(other.key, one.key))
end

-- Moves up to `limit` due messages of each kind on, in the order in which their timers passed. Whether none is left, and
-- whether all that are left are leases.
function L.settle_due(tx, queue, max_attempts, limit)
  local q, due, counts = L.at(tx, queue), {}, {}
  for n, timers in ipairs(TIMERS) do
    local found = L.ask(tx, 'ZRANGEBYSCORE', q .. timers, '-inf', tx.now, 'WITHSCORES', 'LIMIT', 0, limit)
    for at = 1, #found, 2 do
      due[#due + 1] = {key = found[at], at = tonumber(found[at + 1])}
    end
    counts[n] = #found / 2
  end
  table.sort(due, passed_before)
  for _, one in ipairs(due) do
    L.fall(tx, one.key, max_attempts)
  end
  return counts[1] < limit and counts[2] < limit, counts[2] < limit
end

-- Whether the time to live of a message that nobody is working on is over.
function L.has_outlived(tx, msg)
  return msg.x.ex ~= nil and msg.x.ex <= tx.now and L.is_due(tx, msg)
end
