-- Writes that can be taken back. A commit that may still be refused keeps a log of the inverse of each write; a
-- refusal applies it backwards. Where nothing can be refused any more there is no log and a write is only a write.

local function log(tx, ...)
  tx.undo[#tx.undo + 1] = {...}
end

function L.hset(tx, key, field, value)
  if tx.undo then
    local old = call('HGET', key, field)
    if old then
      log(tx, 'HSET', key, field, old)
    else
      log(tx, 'HDEL', key, field)
    end
  end
  call('HSET', key, field, value)
end

function L.hdel(tx, key, field)
  if tx.undo then
    local old = call('HGET', key, field)
    if not old then
      return
    end
    log(tx, 'HSET', key, field, old)
  end
  call('HDEL', key, field)
end

function L.hincr(tx, key, field, by)
  if tx.undo then
    local old = call('HGET', key, field)
    if old then
      log(tx, 'HSET', key, field, old)
    else
      log(tx, 'HDEL', key, field)
    end
  end
  call('HINCRBY', key, field, by)
end

function L.zadd(tx, key, score, member)
  if tx.undo then
    local old = call('ZSCORE', key, member)
    if old then
      log(tx, 'ZADD', key, old, member)
    else
      log(tx, 'ZREM', key, member)
    end
  end
  return call('ZADD', key, score, member)
end

function L.zrem(tx, key, member)
  if tx.undo then
    local old = call('ZSCORE', key, member)
    if not old then
      return
    end
    log(tx, 'ZADD', key, old, member)
  end
  call('ZREM', key, member)
end

function L.take_back(tx)
  local undo = tx.undo or {}
  for n = #undo, 1, -1 do
    call(unpack(undo[n]))
  end
end
