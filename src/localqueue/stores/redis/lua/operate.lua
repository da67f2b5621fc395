-- What an operator does: requeue, prune, purge, cancel, pause, subscribe.

local NOTHING = {}

local function requeue(tx, msg, delay)
  local expires = msg.x.ex
  if expires and expires <= tx.now + delay then
    expires = nil
  end
  msg.x.fo = msg.attempts > 0 and msg.attempts or nil
  L.remember(tx, msg, 'requeued')
  L.land(tx, msg, tx.now + delay, expires, msg.x.wo)
end

function L.requeue(tx, read)
  local queue, delay, all = read.text(), read.number(), read.text() == '1'
  local keys = {}
  if all then
    keys = call('ZRANGE', L.at(tx, queue) .. 'dead', 0, -1)
  else
    for n = 1, read.number() do
      keys[n] = read.text()
    end
  end
  local count = 0
  for _, key in ipairs(keys) do
    local msg = L.current(tx, key)
    if msg and msg.queue == queue and ENDINGS[msg.state] then
      if msg.x.dk and call('HEXISTS', L.at(tx, queue) .. 'd', msg.x.dk) == 1 then
        if not all then
          L.refuse('DedupeKeyInUse', key, msg.x.dk)
        end
      else
        requeue(tx, msg, delay)
        count = count + 1
      end
    end
  end
  return count
end

-- Removes messages with what belongs to them, and remembers that they were not acked. Their queue's own sets are left
-- to the caller.
local function remove(tx, queue, keys, why)
  for from = 1, #keys, CHUNK do
    local part = {unpack(keys, from, math.min(from + CHUNK - 1, #keys))}
    local extras, gone, told = L.extras(tx, part), {}, tx.journal or tx.notes
    local leases = told and L.fetch(tx.l, part) or {}
    for n, key in ipairs(part) do
      local x = extras[n] and cmsgpack.unpack(extras[n]) or NOTHING
      gone[n * 2 - 1], gone[n * 2] = key, TYPES[why]
      if told then
        local l = leases[n] and L.lease_of(leases[n]) or NOTHING
        L.enter(tx, why, queue, key, l.token or x.at or 0, l.by, l.since)
      end
      if (x.wo or 0) > 0 then
        L.cut(tx, key)
      end
      if x.rid then
        call('ZREM', tx.root .. ':run:' .. x.rid .. ':m', key)
        L.of_run(tx, x.rid)
      end
    end
    call('HSET', tx.root .. ':gone', unpack(gone))
    call('HDEL', tx.m, unpack(part))
    call('HDEL', tx.x, unpack(part))
    call('HDEL', tx.l, unpack(part))
  end
end

function L.prune(tx, read)
  local queue, state, before = read.text(), read.text(), tx.now - read.number()
  local q = L.at(tx, queue)
  local keys = call('ZRANGEBYSCORE', q .. state, '-inf', before)
  remove(tx, queue, keys, 'pruned')
  L.many('ZREM', q .. state, keys)
  L.many('ZREM', q .. 'a', keys)
  return #keys
end

function L.purge(tx, read)
  local queue = read.text()
  local q = L.at(tx, queue)
  local keys = call('ZRANGE', q .. 'a', 0, -1)
  remove(tx, queue, keys, 'purged')
  for _, name in ipairs({
    'r', 'i', 't', 'a', 'd', 'o', 'b', 'w', 'delayed', 'waiting', 'blocked', 'dead', 'expired', 'cancelled',
  }) do
    call('UNLINK', q .. name)
  end
  call('HDEL', q .. 'q', 'dropped')
  L.left(tx, queue)
  return #keys
end

function L.cancel_run(tx, read)
  local rid = read.text()
  local run = tx.root .. ':run:' .. rid
  if call('EXISTS', run) == 0 or not call('HGET', run, 'name') then
    return 0
  end
  call('HSETNX', run, 'cancelled', L.text(tx.now))
  L.of_run(tx, rid)
  local cancelled = 0
  for _, key in ipairs(call('ZREVRANGE', run .. ':m', 0, -1)) do
    local msg = L.current(tx, key)
    if msg and L.leave_delivery(tx, msg, {action = 'cancel'}) then
      cancelled = cancelled + 1
    end
  end
  return cancelled
end

function L.pause(tx, read)
  local queue, worker, on = read.text(), read.optional(), read.text() == '1'
  local field = worker and 'paused:' .. worker or 'paused'
  if on then
    call('HSETNX', L.at(tx, queue) .. 'q', field, L.text(tx.now))
  else
    call('HDEL', L.at(tx, queue) .. 'q', field)
    L.came(tx, queue)
  end
  return true
end

function L.heartbeat(tx, read)
  local w, worker, leases = L.at(tx, read.text()) .. 'w', read.text(), read.number()
  call('HSET', w, 's' .. worker, L.text(tx.now))
  if leases ~= 0 then
    call('HINCRBY', w, 'n' .. worker, leases)
  end
  return true
end

function L.subscribe(tx, read)
  local q, subscriber, on = L.at(tx, read.text()), read.text(), read.text() == '1'
  local changed
  if on then
    local n = tonumber(call('HGET', q .. 'q', 'subn') or '0') + 1
    changed = call('HSETNX', q .. 'subs', subscriber, n)
    if changed == 1 then
      call('HSET', q .. 'q', 'subn', n)
    end
  else
    changed = call('HDEL', q .. 'subs', subscriber)
  end
  if changed == 1 then
    call('HINCRBY', q .. 'q', 'subs', 1)
  end
  return changed
end

function L.name_queue(tx, read)
  for _ = 1, read.number() do
    call('HSETNX', tx.root .. ':names', read.text(), read.text())
  end
  return true
end

function L.enable_journal(tx, read)
  local seconds, events = read.number(), read.number()
  call('HSET', tx.root, 'journal', '1')
  call('HDEL', tx.root, 'keep_seconds', 'keep_events')
  if seconds then
    call('HSET', tx.root, 'keep_seconds', L.text(seconds))
  end
  if events then
    call('HSET', tx.root, 'keep_events', string.format('%.0f', events))
  end
  return true
end

function L.disable_journal(tx)
  call('HSET', tx.root, 'journal', '0')
  return true
end

function L.prune_events(tx, read)
  local before, last, log, from, removed = tx.now - read.number(), read.text(), tx.root .. ':log', '-', 0
  while true do
    local entries = call('XRANGE', log, from, last, 'COUNT', CHUNK)
    if #entries == 0 then
      return removed
    end
    local old = {}
    for _, entry in ipairs(entries) do
      if tonumber(entry[2][2]) <= before then
        old[#old + 1] = entry[1]
      end
    end
    L.many('XDEL', log, old)
    removed = removed + #old
    from = '(' .. entries[#entries][1]
  end
end
