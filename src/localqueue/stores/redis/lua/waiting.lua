-- Marks of those who wait for something that is not told otherwise: room in a queue, a change of a run. Whoever makes
-- the change sees the mark and tells; a mark that is not renewed is soon forgotten.

local MARK_LASTS = 5

local function mark(key)
  local now, old = L.clock(), call('HGET', key, 'awaited')
  if not old or tonumber(old) < now + MARK_LASTS / 2 then
    call('HSET', key, 'awaited', L.text(now + MARK_LASTS))
  end
end

-- Whether all queues are below their limits, and else when the next message that counts outlives its time.
function L.room(tx, read)
  local full, next_due = 0, nil
  for _ = 1, read.number() do
    local queue, limit = read.text(), read.number()
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

function L.await_run(tx, read)
  local run = read.text()
  mark(tx.root .. ':run:' .. run)
  return L.run_counts(tx, run)
end
