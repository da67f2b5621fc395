-- Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting call.
--
-- The messages of a commit come as columns: keys in one text, queues and which of them each is for, the rest of each
-- body, and of these the columns that somebody needs: delay, ttl, dk (dedupe key), ok (ordering key), rid and run, after,
-- past. What most batches are is decided and written as a whole (batch.lua), everything else one by one, here.
-- `tx.alias` and `tx.dropped` know those of the same commit that were not stored.

local DUE_A_DROP = 10000
local OPTIONS = {'delay', 'ttl', 'dk', 'ok', 'rid', 'run', 'after', 'past'}

-- What became of a message in one letter: its state when it was stored, the same in upper case when it was diverted.
local LETTERS = {
  ready = 'r', delayed = 'd', waiting = 'w', blocked = 'b', dead = 'x', expired = 'e', cancelled = 'c',
}
local DUPLICATE, DROPPED = '=', '-'

function L.queue_of(batch, n)
  return batch.queues[batch.of and batch.of[n] or 1]
end

local function find_duplicate(tx, new, queue, existing)
  local key = new.dk and L.hget(tx, L.at(tx, queue) .. 'd', new.dk)
  local msg = key and L.current(tx, key)
  if not msg or L.settle_if_outlived(tx, msg) then  -- that frees its key
    return false
  end
  tx.alias[new.key] = key
  L.show(tx, existing, key)
  return true
end

local function count_dropped(tx, queue)
  L.hincr(tx, L.at(tx, queue) .. 'q', 'dropped', 1)
end

-- The ready message that became available first, whatever its priority: one look for each priority in use.
function L.oldest_ready(tx, queue)
  local line, level, oldest = L.at(tx, queue) .. 'r', '-inf', nil
  while true do
    local found = L.ask(tx, 'ZRANGEBYSCORE', line, level, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if not found[1] then
      return oldest
    end
    if not oldest or found[1] < oldest then
      oldest = found[1]
    end
    level = '(' .. found[2]
  end
end

local function drop_oldest(tx, queue)
  while not L.settle_due(tx, queue, nil, DUE_A_DROP) do end
  local oldest = L.oldest_ready(tx, queue)
  local key = oldest and string.sub(oldest, 9)
  if not key then  -- what counts is blocked behind an inflight message of its key
    key = L.ask(tx, 'ZRANGE', L.at(tx, queue) .. 'blocked', 0, 0)[1]
  end
  local msg = key and L.current(tx, key)
  if msg then
    L.mark_removed(tx, msg, 'dropped')
    L.delete(tx, msg)
    count_dropped(tx, queue)
    L.loaded(tx, queue, -1)
  end
end

-- Messages that count against capacity. They are counted once; until something moves, a commit knows what it adds.
local function load_of(tx, queue)
  tx.loads = tx.loads or {}
  tx.loads[queue] = tx.loads[queue] or L.load(tx, queue)
  return tx.loads[queue]
end

function L.loaded(tx, queue, by)
  local loads = tx.loads
  if loads and loads[queue] then
    loads[queue] = loads[queue] + by
  end
end

-- Counts new messages of a run, which is made on first use.
function L.join_run(tx, rid, name, count)
  local run = tx.root .. ':run:' .. rid
  if not L.hget(tx, run, 'name') then
    L.hset(tx, run, 'name', name)
    L.hset(tx, tx.root .. ':runs', rid, name)
  end
  L.hincr(tx, run, 'total', count)
  L.mark(tx, 'runs', rid)
end

-- What the journal keeps of a message beside its body: keys, run, and times that count from now.
function L.kept_options(tx, new)
  local past = new.past
  local kept = {
    dk = new.dk, ok = new.ok, run = new.run, delay = past and past.available - tx.now or new.delay or 0,
    ttl = new.ttl,
  }
  if past then
    kept.ttl = past.expires and past.expires - tx.now
  end
  if kept.delay <= 0 then
    kept.delay = nil
  end
  return next(kept) and cmsgpack.pack(kept)
end

local function insert(tx, new)
  local key, queue, past = new.key, new.queue, new.past
  if L.hget(tx, tx.m, key) then
    L.refuse('IdTaken', key)
  end
  local body = queue .. struct.pack('>d', past and past.created or tx.now) .. new.rest
  local msg = {key = key, queue = queue, body = body, attempts = 0, available = tx.now, state = 'ready', x = {}}
  local x = msg.x
  L.hset(tx, tx.m, key, body)
  L.zset(tx, L.at(tx, queue) .. 'a', key, 0)
  if tx.journal then
    L.enter(tx, 'enqueued', queue, key, nil, nil, nil, nil, body, not new.plain and L.kept_options(tx, new))
  end
  if new.plain then
    L.list(tx, msg, true)
    return msg.state
  end
  if new.rid then
    local run = tx.root .. ':run:' .. new.rid
    if L.hget(tx, run, 'cancelled') and not (past and past.ended) then
      L.refuse('RunCancelled', key)
    end
    L.join_run(tx, new.rid, new.run, 1)
    L.zset(tx, run .. ':m', key, 0)
  end
  x.dk, x.ok, x.run, x.rid = new.dk, new.ok, new.run, new.rid
  local waiting = new.after and L.wait_for(tx, new) or 0
  if waiting > 0 then
    x.wo = waiting
  end
  if past then
    msg.available, msg.attempts = past.available, past.attempts
    x.ex, x.er, x.fa = past.expires, past.error, past.failed
    x.fo = past.forgiven > 0 and past.forgiven or nil
    x.hi = #past.history > 0 and past.history or nil
  else
    msg.available = tx.now + (new.delay or 0)
    x.ex = new.ttl and tx.now + new.ttl
  end
  msg.state = past and past.ended or L.landing(tx, msg.available, x.ex, waiting, L.key_busy(tx, queue, new.ok))
  x.st, x.at, x.av = msg.state, msg.attempts, msg.available
  if past and past.ended then
    x.en = past.ended_at
    local notes = tx.notes
    tx.notes = nil  -- that it ended is no news to whoever brings it
    L.enter(tx, ENDINGS[msg.state], queue, key, msg.attempts, nil, nil, x.er)
    tx.notes = notes
  elseif ENDINGS[msg.state] then
    x.en = tx.now
    L.enter(tx, ENDINGS[msg.state], queue, key, msg.attempts)
  end
  L.save(tx, msg)
  L.list(tx, msg, true)
  return msg.state
end

local function store(tx, new)
  local state = insert(tx, new)
  if state == 'ready' or state == 'blocked' then
    L.loaded(tx, new.queue, 1)
  end
  return LETTERS[state]
end

-- The letter of what became of one message; a duplicate is shown in `existing`.
local function enqueue_one(tx, new, limit, existing)
  if not (new.past and new.past.ended) then
    if find_duplicate(tx, new, new.queue, existing) then
      return DUPLICATE
    end
    if limit and limit.spill and find_duplicate(tx, new, limit.spill, existing) then
      return DUPLICATE
    end
    if limit and limit.maxsize > 0 and load_of(tx, new.queue) >= limit.maxsize then
      if limit.overflow == 'reject' then
        L.refuse('QueueFull', new.key)
      elseif limit.overflow == 'drop-newest' then
        count_dropped(tx, new.queue)
        tx.dropped[new.key] = true
        return DROPPED
      elseif limit.overflow == 'drop-oldest' then
        drop_oldest(tx, new.queue)
      else
        new.queue = limit.spill
        return string.upper(store(tx, new))
      end
    end
  end
  return store(tx, new)
end

-- The n-th message of a batch.
function L.row(batch, n)
  local new = {key = string.sub(batch.keys, n * 8 - 7, n * 8), queue = L.queue_of(batch, n), rest = batch.bodies[n]}
  new.plain = true
  for _, name in ipairs(OPTIONS) do
    local column = batch[name]
    new[name] = column and column[n]
    new.plain = new.plain and new[name] == nil
  end
  return new
end

-- Applies the conditions and new messages of a commit: a letter for each message, and the duplicates' originals.
function L.enqueue(tx, topics, limits, batch)
  tx.alias, tx.dropped = {}, {}
  for _, topic in ipairs(topics) do
    if (call('HGET', L.at(tx, topic[1]) .. 'q', 'subs') or '0') ~= topic[2] then
      L.refuse('SubscriptionsChanged', topic[1])
    end
  end
  if not batch then
    return {'', {}}
  end
  local letters, existing = L.enqueue_all(tx, batch, limits)
  if not letters then
    letters, existing = {}, {}
    for n = 1, #batch.bodies do
      local new = L.row(batch, n)
      letters[n] = enqueue_one(tx, new, limits[new.queue], existing)
    end
  end
  return {table.concat(letters), existing}
end
