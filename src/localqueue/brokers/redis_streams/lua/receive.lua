-- Receiving: what was given back and what others left first, then what is new.

-- Messages whose delay is over go to the end of the stream.
local function admit(queue, time)
  local due = redis.call('ZRANGEBYSCORE', key(queue, 'delayed'), '-inf', time, 'LIMIT', 0, 1000)
  if #due > 0 and redis.call('EXISTS', queue) == 0 then
    return
  end
  for _, name in ipairs(due) do
    local entry = redis.call('XRANGE', key(queue, 'later'), name, name)[1]
    if entry then
      redis.call('XADD', queue, '*', unpack(entry[2]))
      redis.call('XDEL', key(queue, 'later'), name)
    end
    redis.call('ZREM', key(queue, 'delayed'), name)
  end
end

-- Take over up to `room` entries of a sorted set whose time has come: id, fields and the number of this delivery. One
-- that is not pending or not in the stream any more, because another program removed it, is forgotten.
local function claim(queue, group, consumer, set, time, room, found)
  while #found < room do
    local names = redis.call('ZRANGEBYSCORE', set, '-inf', time, 'LIMIT', 0, room - #found)
    if #names == 0 then
      return
    end
    for _, name in ipairs(names) do
      local id, count = parts(name)
      local entry = redis.call('XCLAIM', queue, group, consumer, 0, id, 'RETRYCOUNT', count + 1)[1]
      redis.call('ZREM', set, name)
      if entry then
        found[#found + 1] = { entry[1], entry[2], count + 1 }
      end
    end
  end
end

-- Entries that are pending without a lease belong to consumers that do not know of leases. Those that such a consumer
-- has left alone for too long are given back in its place.
local function adopt(queue, group, idle)
  local known = redis.call('ZCOUNT', key(queue, 'leases'), '-inf', ENDING) + redis.call('ZCARD', key(queue, 'returned'))
  if redis.call('XPENDING', queue, group)[1] <= known then
    return 0, false
  end
  local adopted = 0
  for _, entry in ipairs(redis.call('XPENDING', queue, group, 'IDLE', idle, '-', '+', 100)) do
    local name = named(entry[1], entry[4])
    if not redis.call('ZSCORE', key(queue, 'leases'), name) and not redis.call('ZSCORE', key(queue, 'returned'), name) then
      redis.call('ZADD', key(queue, 'returned'), 0, name)
      adopted = adopted + 1
    end
  end
  return adopted, true
end

-- Consumers of ours that hold nothing and have not been heard of for a minute.
local function forget_consumers(queue, group)
  for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', queue, group)) do
    local one = row(flat)
    if one['pending'] == 0 and one['idle'] > 60000 and string.find(one['name'], '^localqueue%-') then
      redis.call('XGROUP', 'DELCONSUMER', queue, group, one['name'])
    end
  end
end

-- In how many milliseconds something falls due, -1 for never.
local function next_due(queue, time)
  local nearest = math.huge
  for _, part in ipairs({ 'delayed', 'returned', 'leases' }) do
    local first = redis.call('ZRANGE', key(queue, part), 0, 0, 'WITHSCORES')
    if first[2] and first[1] ~= FOREVER then
      nearest = math.min(nearest, tonumber(first[2]))
    end
  end
  return nearest == math.huge and -1 or math.max(0, nearest - time)
end

-- Arguments: group, consumer, how many, for how many milliseconds, after how many a pending entry is adopted. When there
-- is nothing: in how many milliseconds to look again, and where a blocking read has to begin.
redis.register_function(PREFIX .. 'receive', function(keys, args)
  local queue, group, consumer, limit = keys[1], args[1], args[2], tonumber(args[3])
  local time, leases, returned = now(), key(queue, 'leases'), key(queue, 'returned')
  admit(queue, time)
  local claimed = {}
  claim(queue, group, consumer, returned, time, limit, claimed)
  local given = #claimed
  claim(queue, group, consumer, leases, time, limit, claimed)
  if #claimed > given then
    forget_consumers(queue, group)
  end
  local fresh = {}
  if #claimed < limit then
    local read = redis.pcall('XREADGROUP', 'GROUP', group, consumer, 'COUNT', limit - #claimed, 'STREAMS', queue, '>')
    if read and read.err then
      if string.find(read.err, 'NOGROUP', 1, true) then
        return false
      end
      return read
    end
    fresh = read and read[1][2] or fresh
  end
  local foreign = false
  if #claimed + #fresh == 0 then
    local adopted
    adopted, foreign = adopt(queue, group, args[5])
    if adopted > 0 then
      claim(queue, group, consumer, returned, time, limit, claimed)
    end
  end
  local until_then = time + args[4]
  if #claimed + #fresh > 0 then
    local held = { '+inf', FOREVER }
    for _, entry in ipairs(claimed) do
      held[#held + 1] = until_then
      held[#held + 1] = named(entry[1], entry[3])
    end
    for _, entry in ipairs(fresh) do
      held[#held + 1] = until_then
      held[#held + 1] = named(entry[1], 1)
    end
    in_pieces(held, 'ZADD', leases)
    return { until_then, claimed, fresh }
  end
  local last = redis.call('XREVRANGE', key(queue, 'signal'), '+', '-', 'COUNT', 1)[1]
  local due = next_due(queue, time)
  if foreign and (due < 0 or due > tonumber(args[5])) then
    due = tonumber(args[5])
  end
  return { until_then, claimed, fresh, due, group_of(queue, group)['last-delivered-id'], last and last[1] or '0-0' }
end)
