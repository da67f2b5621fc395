-- Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting call.

local DUE_A_DROP = 10000

-- Reads one new message. `tx.wired` knows those of the same commit that were not stored.
function L.read_new(read)
  local new = {key = read.text(), queue = read.text(), rest = read.text(), kind = read.text(), after = {}}
  if new.kind == 'p' then
    return new
  end
  new.delay, new.ttl, new.dk, new.ok = read.number(), read.number(), read.optional(), read.optional()
  local run = read.optional()
  if run then
    new.rid, new.run = string.sub(run, 1, QUEUE), string.sub(run, QUEUE + 1)
  end
  for n = 1, read.number() do
    new.after[n] = read.text()
  end
  if new.kind == 'o' then
    new.past = L.read_past(read)
  end
  return new
end

function L.read_past(read)
  local past = {
    created = read.number(), available = read.number(), expires = read.number(), attempts = read.number(),
    forgiven = read.number(), error = read.optional(), failed = read.number(), ended = read.optional(),
    ended_at = read.number(), history = {},
  }
  for n = 1, read.number() do
    past.history[n] = {
      read.number(), read.text(), read.number(), read.number() or false, read.optional() or false,
      read.optional() or false,
    }
  end
  return past
end

local function find_duplicate(tx, new, queue, reply)
  local key = new.dk and call('HGET', L.at(tx, queue) .. 'd', new.dk)
  local msg = key and L.current(tx, key)
  if not msg or L.settle_if_outlived(tx, msg) then  -- that frees its key
    return false
  end
  tx.alias[new.key] = key
  reply[#reply + 1] = 'duplicate'
  L.show(tx, reply, key)
  return true
end

local function count_dropped(tx, queue)
  L.hincr(tx, L.at(tx, queue) .. 'q', 'dropped', 1)
end

-- The ready message that became available first, whatever its priority: one look for each priority in use.
function L.oldest_ready(tx, queue)
  local line, level, oldest = L.at(tx, queue) .. 'r', '-inf', nil
  while true do
    local found = call('ZRANGEBYSCORE', line, level, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
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
    key = call('ZRANGE', L.at(tx, queue) .. 'blocked', 0, 0)[1]
  end
  local msg = key and L.current(tx, key)
  if msg then
    L.mark_removed(tx, msg, 'dropped')
    L.delete(tx, msg)
    count_dropped(tx, queue)
  end
end

-- The run of a new message, made on first use.
local function join_run(tx, new)
  if not new.rid then
    return
  end
  local run = tx.root .. ':run:' .. new.rid
  local found = call('HMGET', run, 'name', 'cancelled')
  if found[2] and not (new.past and new.past.ended) then
    L.refuse('RunCancelled', new.key)
  end
  if not found[1] then
    L.hset(tx, run, 'name', new.run)
    L.hset(tx, tx.root .. ':runs', new.rid, new.run)
  end
  L.hincr(tx, run, 'total', 1)
  L.zadd(tx, run .. ':m', 0, new.key)
end

-- What the journal keeps of a message beside its body: keys, run, and times that count from now.
local function options(tx, new)
  local past = new.past
  local kept = {
    dk = new.dk, ok = new.ok, run = new.run, delay = past and past.available - tx.now or new.delay,
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
  if call('HEXISTS', tx.m, new.key) == 1 then
    L.refuse('IdTaken', new.key)
  end
  local past = new.past
  local created = past and past.created or tx.now
  local body = new.queue .. struct.pack('>d', created) .. new.rest
  local msg = {key = new.key, queue = new.queue, body = body, attempts = 0, x = {}}
  local x = msg.x
  L.hset(tx, tx.m, new.key, body)
  L.zadd(tx, L.at(tx, new.queue) .. 'a', 0, new.key)
  local kept = tx.journal and new.kind ~= 'p' and options(tx, new)
  L.enter(tx, 'enqueued', new.queue, new.key, nil, nil, nil, nil, body, kept)
  if new.kind == 'p' then
    msg.available, msg.state = tx.now, 'ready'
    L.put_in(tx, msg)
    return msg.state
  end
  join_run(tx, new)
  x.dk, x.ok, x.run, x.rid = new.dk, new.ok, new.run, new.rid
  local waiting = L.wait_for(tx, new)
  if waiting > 0 then
    x.wo = waiting
  end
  msg.available = past and past.available or tx.now + new.delay
  if past then
    x.ex = past.expires
  elseif new.ttl then
    x.ex = tx.now + new.ttl
  end
  if past then
    msg.attempts, x.er, x.fa = past.attempts, past.error, past.failed
    x.fo = past.forgiven > 0 and past.forgiven or nil
    x.hi = #past.history > 0 and past.history or nil
  end
  msg.state = past and past.ended
    or L.landing(tx, msg.available, x.ex, waiting, L.key_busy(tx, new.queue, new.ok))
  x.st, x.at, x.av = msg.state, msg.attempts, msg.available
  if past and past.ended then
    x.en = past.ended_at
    local notes = tx.notes
    tx.notes = nil  -- that it ended is no news to whoever brings it
    L.enter(tx, ENDINGS[msg.state], new.queue, new.key, msg.attempts, nil, nil, x.er)
    tx.notes = notes
  elseif ENDINGS[msg.state] then
    x.en = tx.now
    L.enter(tx, ENDINGS[msg.state], new.queue, new.key, msg.attempts)
  end
  L.save(tx, msg)
  L.put_in(tx, msg)
  return msg.state
end

local function enqueue_one(tx, new, limit, reply)
  if not (new.past and new.past.ended) then
    if find_duplicate(tx, new, new.queue, reply) then
      return
    end
    if limit and limit.spill and find_duplicate(tx, new, limit.spill, reply) then
      return
    end
    if limit and limit.maxsize > 0 and L.load(tx, new.queue) >= limit.maxsize then
      if limit.overflow == 'reject' then
        L.refuse('QueueFull', new.key)
      elseif limit.overflow == 'drop-newest' then
        count_dropped(tx, new.queue)
        tx.dropped[new.key] = true
        reply[#reply + 1] = 'dropped'
        return
      elseif limit.overflow == 'drop-oldest' then
        drop_oldest(tx, new.queue)
      else
        new.queue = limit.spill
        reply[#reply + 1] = 'diverted'
        reply[#reply + 1] = insert(tx, new)
        return
      end
    end
  end
  reply[#reply + 1] = 'stored'
  reply[#reply + 1] = insert(tx, new)
end

-- Applies the conditions and new messages of a commit; what became of each message.
function L.enqueue(tx, read)
  tx.alias, tx.dropped = {}, {}
  for _ = 1, read.number() do
    local topic, version = read.text(), read.text()
    if (call('HGET', L.at(tx, topic) .. 'q', 'subs') or '0') ~= version then
      L.refuse('SubscriptionsChanged', topic)
    end
  end
  local limits = {}
  for _ = 1, read.number() do
    limits[read.text()] = {maxsize = read.number(), overflow = read.text(), spill = read.optional()}
  end
  local reply = {}
  for _ = 1, read.number() do
    local new = L.read_new(read)
    enqueue_one(tx, new, limits[new.queue], reply)
  end
  return reply
end
