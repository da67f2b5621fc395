-- The everyday calls, with as few commands as they can do with.

-- Arguments: time, queue, message, rest of the body, minus the priority. The time, and the key if it had to be another.
local function put(keys, args)
  local root, queue, key = keys[1], args[2], args[3]
  local meta = call('HMGET', root, 'version', 'secret', 'journal')
  local unfit = L.unfit(meta, args)
  if unfit then
    return {'!', 'Version', unfit}
  end
  local now = tonumber(args[1]) or L.clock()
  local body = queue .. struct.pack('>d', now) .. args[4]
  local m, registers = root .. ':m', root .. ':newest'
  local newest = call('HGET', registers, queue)
  local is_late = newest and not L.is_newer(key, newest)
  if is_late and call('HEXISTS', m, key) == 0 then
    key = L.keys_above(m, newest, key, 1)[1]
  end
  if call('HSETNX', m, key, body) == 0 then
    return {'!', 'IdTaken', key}
  end
  call('HSET', registers, queue, key)
  local q = root .. ':' .. queue .. ':'
  call('ZADD', q .. 'r', args[5], L.place(now) .. key)
  call('ZADD', q .. 'a', 0, key)
  if meta[3] == '1' then
    local tx = {root = root, now = now, journal = {}}
    L.enter(tx, 'enqueued', queue, key, nil, nil, nil, nil, body)
    L.write_journal(tx)
  end
  if call('ZCARD', q .. 'r') == 1 then  -- whoever waits has seen the line empty
    L.say(root, queue)
  end
  return is_late and {L.text(now), key} or L.text(now)
end

-- Arguments: time, queue, message, token.
local function ack(keys, args)
  local root, queue, key = keys[1], args[2], args[3]
  local meta = call('HMGET', root, 'version', 'secret', 'journal')
  local unfit = L.unfit(meta, args)
  if unfit then
    return {'!', 'Version', unfit}
  end
  local packed = call('HGET', root .. ':l', key)
  if not packed or string.sub(packed, 1, QUEUE) ~= queue
    or struct.unpack('>I4', packed, QUEUE + 1) ~= tonumber(args[4]) then
    return 0
  end
  if meta[3] == '1' or call('HEXISTS', root .. ':x', key) == 1 then
    local tx = L.open(keys, args)
    local _, good = L.check_acks(tx, {{queue, key, tonumber(args[4])}}, false)
    L.ack_all(tx, good)
    L.finish(tx)
    return 1
  end
  local q = root .. ':' .. queue .. ':'
  call('HDEL', root .. ':m', key)
  call('HDEL', root .. ':l', key)
  call('ZREM', q .. 'i', key)
  call('ZREM', q .. 'a', key)
  return 1
end

local function lease(tx, args)
  local reply, again = L.lease(tx, args, false)
  return {reply, again and 1 or 0}
end

-- Any commit, in the order of the port; what it does not have is not among its arguments. Acks of leases come as `acks`
-- when there is nothing else to settle: a worker's step has nothing to undo, as all that could be refused is looked at
-- first, and so it is for records. Only what comes before the lease can be refused.
local function commit(tx, args)
  local edges, settles, records, acks = args.edges or {}, args.settle or {}, args.records or {}, args.acks
  if args.batch or #edges > 0 or (#settles > 0 and #settles + #records > 1) then
    tx.undo = {}
  end
  if args.records_first then
    L.check_records(tx, records)
  end
  local enqueued = L.enqueue(tx, args.topics or {}, args.limits or {}, args.batch)
  L.add_edges(tx, edges)
  L.flush(tx)
  local settled, good = L.settle(tx, settles, args.strict), {}
  if acks then
    settled, good = L.check_acks(tx, acks, args.strict)
  end
  L.check_records(tx, records)
  L.ack_all(tx, good)
  L.write_records(tx, records)
  tx.told = args.told
  L.flush(tx)
  tx.undo = nil  -- nothing can be refused any more
  return {enqueued, settled, args.lease and (L.lease(tx, args.lease, true)) or {}}
end

-- The numbers of those commands that the caller may not run, of a list of whole commands: the server may break down over
-- one that lacks arguments.
local function privileges(_, args)
  local denied = {}
  for n, command in ipairs(cmsgpack.unpack(args[1])) do
    if not redis.acl_check_cmd(unpack(command)) then
      denied[#denied + 1] = n
    end
  end
  return denied
end

-- From version 1 to 2: a queue knows the newest message that it ever had.
local function keep_newest(root)
  for _, queue in ipairs(call('HKEYS', root .. ':names')) do
    local last = call('ZREVRANGE', root .. ':' .. queue .. ':a', 0, 0)[1]
    if last then
      call('HSET', root .. ':newest', queue, last)
    end
  end
end

-- Opens a namespace, making it on first use and migrating it from an older version. Arguments: its name, a secret for a
-- new one.
local function namespace(keys, args)
  local root = keys[1]
  if call('EXISTS', root) == 0 then
    call('HSET', root, 'version', VERSION, 'name', args[1], 'secret', args[2])
  elseif call('HGET', root, 'version') == '1' then
    keep_newest(root)
    call('HSET', root, 'version', VERSION)
  end
  return call('HMGET', root, 'version', 'name', 'secret')
end
