-- Who waits: telling those who listen, looking for them, and their marks.
--
-- Marks are of those who wait for something that is not told otherwise: room in a queue, a change of a run. Whoever
-- makes the change sees the mark and tells; a mark that is not renewed is soon forgotten. Marks go by the server's clock,
-- whatever time a test gives. That of a queue is one of its settings; that of a run is a key of its own which expires, as
-- one can wait for a run that never comes to be.

local MOST_NAMES = 16
local MARK_LASTS = 5

local function is_awaited(key)
  local mark = call('HGET', key, 'awaited')
  return mark and tonumber(mark) > L.clock()
end

-- What is told was stored: whether it can be told decides about nothing. Who is not told looks by himself.
function L.say(root, text)
  redis.pcall('PUBLISH', root, text)
end

local function say_all(channel, names)
  if #names > 0 then
    L.say(channel, #names <= MOST_NAMES and table.concat(names, ' ') or '*')
  end
end

function L.tell(tx)
  local names = {}
  for queue in pairs(tx.wakes or {}) do
    names[#names + 1] = queue
  end
  for queue in pairs(tx.rooms or {}) do
    if not (tx.wakes and tx.wakes[queue]) and is_awaited(L.at(tx, queue) .. 'q') then
      names[#names + 1] = queue
    end
  end
  for run in pairs(tx.runs or {}) do
    if call('EXISTS', tx.root .. ':run:' .. run .. ':awaited') == 1 then
      names[#names + 1] = run
    end
  end
  say_all(tx.root, names)
  say_all(tx.root .. ':records', tx.told or {})
end

local function mark(key)
  local now, old = L.clock(), call('HGET', key, 'awaited')
  if not old or tonumber(old) < now + MARK_LASTS / 2 then
    call('HSET', key, 'awaited', L.text(now + MARK_LASTS))
  end
end

-- Whether all queues are below their limits, and else when the next message that counts outlives its time.
function L.room(tx, args)
  local full, next_due = 0, nil
  for queue, limit in pairs(args.limits) do
    if L.load(tx, queue) >= limit then
      full = 1
      local q = L.at(tx, queue)
      mark(q .. 'q')
      for _, key in ipairs(call('ZRANGEBYSCORE', q .. 't', '(' .. L.text(tx.now), '+inf', 'LIMIT', 0, CHUNK)) do
        local x = cmsgpack.unpack(call('HGET', tx.x, key))
        if x.ex and (x.st == 'ready' or x.st == 'blocked') then
          next_due = math.min(x.ex, next_due or x.ex)
          break
        end
      end
    end
  end
  return {1 - full, next_due and L.text(next_due - tx.now) or false}
end

function L.await_run(tx, args)
  call('SET', tx.root .. ':run:' .. args.run .. ':awaited', '', 'PX', MARK_LASTS * 1000)
  return L.run(tx, args)
end

-- Whether one of the queues has something to lease for a worker, and else when the next timer is.
function L.look(tx, args)
  local next_due = nil
  for _, queue in ipairs(args.queues) do
    if not L.is_paused(tx, queue, args.worker) then
      local q = L.at(tx, queue)
      if call('ZCARD', q .. 'r') > 0 then
        return {1, false}
      end
      for _, timers in ipairs(TIMERS) do
        local due = tonumber(call('ZRANGE', q .. timers, 0, 0, 'WITHSCORES')[2])
        if due and due <= tx.now then
          return {1, false}
        end
        next_due = due and math.min(due, next_due or due) or next_due
      end
    end
  end
  return {0, next_due and L.text(next_due - tx.now) or false}
end
