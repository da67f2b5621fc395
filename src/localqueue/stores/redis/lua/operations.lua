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

function L.requeue(tx, args)
  tx.undo = {}
  local queue, all, count = args.queue, not args.keys, 0
  for _, key in ipairs(args.keys or call('ZRANGE', L.at(tx, queue) .. 'dead', 0, -1)) do
    local msg = L.current(tx, key)
    if msg and msg.queue == queue and ENDINGS[msg.state] then
      if msg.x.dk and L.hget(tx, L.at(tx, queue) .. 'd', msg.x.dk) then
        if not all then
          L.refuse('DedupeKeyInUse', key, msg.x.dk)
        end
      else
        requeue(tx, msg, args.delay)
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
        L.mark(tx, 'runs', x.rid)
      end
    end
    call('HSET', tx.root .. ':gone', unpack(gone))
    L.forget_removed(tx, #part)
    call('HDEL', tx.m, unpack(part))
    call('HDEL', tx.x, unpack(part))
    call('HDEL', tx.l, unpack(part))
  end
end

function L.prune(tx, args)
  local queue, state = args.queue, args.state
  local q = L.at(tx, queue)
  local keys = call('ZRANGEBYSCORE', q .. state, '-inf', tx.now - args.older_than)
  remove(tx, queue, keys, 'pruned')
  L.many('ZREM', q .. state, keys)
  L.many('ZREM', q .. 'a', keys)
  return #keys
end

function L.purge(tx, args)
  local queue = args.queue
  local q = L.at(tx, queue)
  local keys = call('ZRANGE', q .. 'a', 0, -1)
  remove(tx, queue, keys, 'purged')
  for _, name in ipairs({
    'r', 'i', 't', 'a', 'd', 'o', 'b', 'w', 'delayed', 'waiting', 'blocked', 'dead', 'expired', 'cancelled',
  }) do
    call('UNLINK', q .. name)
  end
  call('HDEL', q .. 'q', 'dropped')
  L.mark(tx, 'rooms', queue)
  return #keys
end

function L.cancel_run(tx, args)
  local run = tx.root .. ':run:' .. args.run
  if not call('HGET', run, 'name') then
    return 0
  end
  call('HSETNX', run, 'cancelled', L.text(tx.now))
  L.mark(tx, 'runs', args.run)
  local cancelled = 0
  for _, key in ipairs(call('ZREVRANGE', run .. ':m', 0, -1)) do
    local msg = L.current(tx, key)
    if msg and L.leave_delivery(tx, msg, {action = 'cancel'}) then
      cancelled = cancelled + 1
    end
  end
  return cancelled
end

function L.pause(tx, args)
  local settings = L.at(tx, args.queue) .. 'q'
  local field = args.worker and 'paused:' .. args.worker or 'paused'
  if args.on then
    call('HSETNX', settings, field, L.text(tx.now))
  else
    call('HDEL', settings, field)
    L.mark(tx, 'wakes', args.queue)
  end
end

-- A worker that comes has those forgotten that were not seen for long.
local function forget_workers(tx, w, known)
  local all = call('HGETALL', w)
  for n = 1, #all, 2 do
    local kind, worker = string.sub(all[n], 1, 1), string.sub(all[n], 2)
    if kind == 's' and tonumber(all[n + 1]) < tx.now - known then
      call('HDEL', w, 's' .. worker, 'n' .. worker)
    end
  end
end

function L.heartbeat(tx, args)
  local w = L.at(tx, args.queue) .. 'w'
  if call('HSET', w, 's' .. args.worker, L.text(tx.now)) == 1 then
    forget_workers(tx, w, args.known)
  end
  if args.leases ~= 0 then
    call('HINCRBY', w, 'n' .. args.worker, args.leases)
  end
end

function L.subscribe(tx, args)
  local q, subscriber = L.at(tx, args.queue), args.subscriber
  local changed
  if args.on then
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

function L.name_queues(tx, args)
  for queue, name in pairs(args.names) do
    call('HSETNX', tx.root .. ':names', queue, name)
  end
end
