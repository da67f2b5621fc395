-- Settling: ack, release, dead-letter and cancel, and what follows from each in the same call.

function L.ack(tx, msg)
  L.note(tx, 'acked', msg)
  L.delete(tx, msg)
  local x = msg.x
  if x.rid then
    L.hincr(tx, tx.root .. ':run:' .. x.rid, 'done', 1)
    L.hset(tx, tx.root .. ':run:' .. x.rid, 'at', L.text(tx.now))
  end
  if x.dp then
    L.free_dependents(tx, msg.key)
  end
end

function L.leave_delivery(tx, msg, one)
  if ENDINGS[msg.state] then
    return false
  end
  local err, after, event = one.error, 'cancelled', 'cancelled'
  if one.action == 'release' then
    if msg.state == 'waiting' or msg.state == 'blocked' then
      return false
    end
    local used, leased = msg.attempts - (msg.x.fo or 0), msg.state == 'inflight'
    if not leased or one.forgive or not one.most or used < one.most then
      L.remember(tx, msg, 'released', err or msg.x.er)
      if err then
        msg.x.er, msg.x.fa = err, tx.now
      end
      if one.forgive and leased then
        msg.x.fo = (msg.x.fo or 0) + 1
        L.land(tx, msg, msg.available, msg.x.ex)
      else
        L.land(tx, msg, tx.now + one.delay, msg.x.ex)
      end
      return true
    end
    after, event, err = 'dead', 'dead_lettered', err or L.exhausted(used, 'it was released')
  elseif one.action == 'dead-letter' then
    after, event = 'dead', 'dead_lettered'
  end
  L.remember(tx, msg, event, err or msg.x.er)
  L.move(tx, msg, after, msg.available, msg.x.ex, err)
  return true
end

local function settle_one(tx, one)
  local key = tx.renamed and tx.renamed[one.key] or one.key
  local msg = key ~= '' and L.current(tx, key)
  if not msg or msg.queue ~= one.queue then
    return false
  end
  if one.token and (not msg.lease or msg.lease.token ~= one.token) then
    return false
  end
  if one.action == 'ack' then
    L.ack(tx, msg)
    return true
  end
  return L.leave_delivery(tx, msg, one)
end

-- Applies the settles of a commit; '1' or '0' for each.
function L.settle(tx, settles, strict)
  local done = {}
  for n, one in ipairs(settles) do
    local settled = settle_one(tx, one)
    if strict and not settled then
      L.refuse('LeaseLost', n)
    end
    done[n] = settled and '1' or '0'
  end
  return table.concat(done)
end

-- Acks (queue, message, token) in a call that does nothing else that could be refused: all leases are looked at first.
function L.check_acks(tx, acks, strict)
  local keys, done, good, seen = {}, {}, {}, {}
  for n, ack in ipairs(acks) do
    keys[n] = ack[2]
  end
  local leases = L.fetch(tx.l, keys)
  for n, key in ipairs(keys) do
    local l = leases[n] and not seen[key] and L.lease_of(leases[n])
    local current = l and l.queue == acks[n][1] and l.token == acks[n][3]
    if strict and not current then
      L.refuse('LeaseLost', n)
    end
    if current then
      seen[key] = true
      l.key = key
      good[#good + 1] = l
    end
    done[n] = current and '1' or '0'
  end
  return table.concat(done), good
end

-- What leaves nothing else to do goes in few commands, however many there are.
function L.ack_all(tx, good)
  local keys, plain, by_queue = {}, {}, {}
  for n, l in ipairs(good) do
    keys[n] = l.key
  end
  local extras = L.extras(tx, keys)
  for n, l in ipairs(good) do
    if extras[n] then
      L.ack(tx, L.current(tx, l.key))
    else
      plain[#plain + 1] = l.key
      local of = by_queue[l.queue] or {}
      by_queue[l.queue] = of
      of[#of + 1] = l.key
      if tx.journal then
        L.enter(tx, 'acked', l.queue, l.key, l.token, l.by)
      end
    end
  end
  L.many('HDEL', tx.m, plain)
  L.many('HDEL', tx.l, plain)
  for queue, of in pairs(by_queue) do
    local q = L.at(tx, queue)
    L.many('ZREM', q .. 'i', of)
    L.many('ZREM', q .. 'a', of)
  end
end
