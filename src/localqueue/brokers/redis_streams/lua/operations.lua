-- Looking at a queue, emptying and removing it.

local function count_through(queue, last)
  local count, from = 0, '-'
  while true do
    local entries = redis.call('XRANGE', queue, from, last, 'COUNT', 1000)
    count = count + #entries
    if #entries < 1000 then
      return count
    end
    from = '(' .. entries[#entries][1]
  end
end

-- How many entries nobody has read. The server knows its lag, except while removed entries keep it from that; then
-- those that were read are counted, of which there are few: what is acked is removed.
local function unread(queue, found)
  if found['lag'] then
    return found['lag']
  end
  return redis.call('XLEN', queue) - count_through(queue, found['last-delivered-id'])
end

-- Ready, in flight, delayed and dead.
redis.register_function({
  function_name = PREFIX .. 'stats',
  flags = { 'no-writes' },
  callback = function(keys, args)
    local queue, time = keys[1], now()
    local found = group_of(queue, args[1])
    if not found then
      return false
    end
    local after = '(' .. time
    local sizes, later = {}, {}
    for _, part in ipairs({ 'delayed', 'returned', 'leases' }) do
      sizes[part] = redis.call('ZCOUNT', key(queue, part), '-inf', ENDING)
      later[part] = redis.call('ZCOUNT', key(queue, part), after, ENDING)
    end
    local foreign = math.max(0, found['pending'] - sizes['returned'] - sizes['leases'])
    local due = 0
    for part, size in pairs(sizes) do
      due = due + size - later[part]
    end
    return {
      unread(queue, found) + due,
      later['leases'] + foreign,
      later['delayed'] + later['returned'],
      redis.call('XLEN', key(queue, 'dead')),
    }
  end,
})

local function drop(queue, group, set, time)
  local ids = {}
  for _, name in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', time)) do
    ids[#ids + 1] = parts(name)
    redis.call('ZREM', set, name)
  end
  in_pieces(ids, 'XACK', queue, group)
  in_pieces(ids, 'XDEL', queue)
  return #ids
end

-- Everything but what is held; how many messages they were.
redis.register_function(PREFIX .. 'purge', function(keys, args)
  local queue, group = keys[1], args[1]
  local found = group_of(queue, group)
  if not found then
    return false
  end
  local removed = drop(queue, group, key(queue, 'returned'), '+inf') + drop(queue, group, key(queue, 'leases'), now())
  removed = removed + redis.call('ZCARD', key(queue, 'delayed'))
  redis.call('DEL', key(queue, 'delayed'), key(queue, 'later'))
  while true do
    local entries = redis.call('XRANGE', queue, '(' .. found['last-delivered-id'], '+', 'COUNT', 1000)
    if #entries == 0 then
      redis.call('XGROUP', 'SETID', queue, group, '$')
      return removed
    end
    local ids = {}
    for at, entry in ipairs(entries) do
      ids[at] = entry[1]
    end
    redis.call('XDEL', queue, unpack(ids))
    removed = removed + #ids
  end
end)

redis.register_function(PREFIX .. 'delete', function(keys)
  local queue = keys[1]
  local gone = { queue }
  for _, part in ipairs({ 'leases', 'returned', 'later', 'delayed', 'dead', 'signal' }) do
    gone[#gone + 1] = key(queue, part)
  end
  return redis.call('DEL', unpack(gone))
end)

-- Dead letters, the oldest first; nothing where there is no such queue.
redis.register_function({
  function_name = PREFIX .. 'dead',
  flags = { 'no-writes' },
  callback = function(keys, args)
    if redis.call('EXISTS', keys[1]) == 0 then
      return false
    end
    return redis.call('XRANGE', key(keys[1], 'dead'), '-', '+', 'COUNT', args[1])
  end,
})

redis.register_function(PREFIX .. 'drop_dead', function(keys, args)
  local done = {}
  for at, id in ipairs(args) do
    done[at] = redis.call('XDEL', key(keys[1], 'dead'), id)
  end
  return done
end)

-- A consumer goes: its name is forgotten, unless entries are pending under it.
redis.register_function(PREFIX .. 'leave', function(keys, args)
  if not group_of(keys[1], args[1]) then
    return 0
  end
  for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', keys[1], args[1])) do
    local one = row(flat)
    if one['name'] == args[2] and one['pending'] == 0 then
      return redis.call('XGROUP', 'DELCONSUMER', keys[1], args[1], args[2])
    end
  end
  return 0
end)
