-- Settling what is held: each entry by the name it was leased under, so a receipt that is out of date changes nothing.

redis.register_function(PREFIX .. 'ack', function(keys, args)
  local queue, group, leases, done, ids, names, seen = keys[1], args[1], key(keys[1], 'leases'), {}, {}, {}, {}
  for first = 2, #args, 4000 do
    local scores = redis.call('ZMSCORE', leases, unpack(args, first, math.min(first + 3999, #args)))
    for at, score in ipairs(scores) do
      local name = args[first + at - 1]
      local held = score and not seen[name]
      done[#done + 1] = held and 1 or 0
      if held then
        seen[name] = true
        names[#names + 1] = name
        ids[#ids + 1] = parts(name)
      end
    end
  end
  in_pieces(names, 'ZREM', leases)
  in_pieces(ids, 'XACK', queue, group)
  in_pieces(ids, 'XDEL', queue)
  return done
end)

-- Arguments: group, the delay in milliseconds, 1 if this was no delivery to anybody.
redis.register_function(PREFIX .. 'nack', function(keys, args)
  local queue, group, leases, done = keys[1], args[1], key(keys[1], 'leases'), {}
  local due = args[2] == '0' and 0 or now() + args[2]
  for at = 4, #args do
    done[at - 3] = redis.call('ZREM', leases, args[at])
    if done[at - 3] == 1 then
      local id, count = parts(args[at])
      count = count - args[3]
      redis.call('XCLAIM', queue, group, RETURNED, 0, id, 'RETRYCOUNT', count, 'JUSTID')
      redis.call('ZADD', key(queue, 'returned'), due, id .. ':' .. count)
    end
  end
  signal(queue)
  return done
end)

-- Arguments: group, the error as JSON or nothing.
redis.register_function(PREFIX .. 'bury', function(keys, args)
  local queue, group, leases, done = keys[1], args[1], key(keys[1], 'leases'), {}
  for at = 3, #args do
    done[at - 2] = redis.call('ZREM', leases, args[at])
    if done[at - 2] == 1 then
      local id, count = parts(args[at])
      local entry = redis.call('XRANGE', queue, id, id)[1]
      if entry then
        local fields, has_id = {}, false
        for field = 1, #entry[2], 2 do
          has_id = has_id or entry[2][field] == 'id'
          if entry[2][field] ~= 'error' and entry[2][field] ~= 'attempts' then
            fields[#fields + 1] = entry[2][field]
            fields[#fields + 1] = entry[2][field + 1]
          end
        end
        for name, value in pairs({ error = args[2], id = has_id and '' or entry[1], attempts = tostring(count) }) do
          if value ~= '' then
            fields[#fields + 1] = name
            fields[#fields + 1] = value
          end
        end
        redis.call('XADD', key(queue, 'dead'), '*', unpack(fields))
      end
      redis.call('XACK', queue, group, id)
      redis.call('XDEL', queue, id)
    end
  end
  return done
end)

-- Arguments: group, consumer, for how many milliseconds. Until when each is held, nothing for one that is not.
redis.register_function(PREFIX .. 'extend', function(keys, args)
  local queue, group, leases, held = keys[1], args[1], key(keys[1], 'leases'), {}
  local until_then, sooner = now() + args[3], false
  for at = 4, #args do
    local before = redis.call('ZSCORE', leases, args[at])
    held[at - 3] = before and until_then or false
    if before then
      local id, count = parts(args[at])
      redis.call('ZADD', leases, until_then, args[at])
      redis.call('XCLAIM', queue, group, args[2], 0, id, 'RETRYCOUNT', count, 'JUSTID')
      sooner = sooner or tonumber(before) > until_then
    end
  end
  if sooner then
    signal(queue)
  end
  return held
end)
