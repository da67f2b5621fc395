-- Making a queue, and sending into one.

redis.register_function(PREFIX .. 'make', function(keys, args)
  local made = redis.pcall('XGROUP', 'CREATE', keys[1], args[1], '0', 'MKSTREAM')
  if made.err and not string.find(made.err, 'BUSYGROUP', 1, true) then
    return made
  end
  return 1
end)

-- For each message: its delay in milliseconds, how many fields and values it has, and these. The ids of the entries, or
-- nothing where there is no such stream.
redis.register_function(PREFIX .. 'send', function(keys, args)
  local queue, ids, at, time, earliest = keys[1], {}, 1, nil, nil
  if redis.call('EXISTS', queue) == 0 then
    return false
  end
  while at <= #args do
    local delay, last = tonumber(args[at]), at + 1 + args[at + 1]
    if delay == 0 then
      ids[#ids + 1] = redis.call('XADD', queue, '*', unpack(args, at + 2, last))
    else
      time = time or now()
      local id = redis.call('XADD', key(queue, 'later'), '*', unpack(args, at + 2, last))
      redis.call('ZADD', key(queue, 'delayed'), time + delay, padded(id))
      earliest = math.min(earliest or math.huge, time + delay)
      ids[#ids + 1] = id
    end
    at = last + 1
  end
  if earliest and tonumber(redis.call('ZRANGE', key(queue, 'delayed'), 0, 0, 'WITHSCORES')[2]) >= earliest then
    signal(queue)
  end
  return ids
end)
