-- Enqueueing: capacity, dedupe, dependencies, runs and ordering keys, all inside the inserting call.
--
-- The messages of a commit come as columns: keys in one text (with the oldest and the newest of them), queues and which
-- of them each is for, the rest of each body, and of these the columns that somebody needs: delay, ttl, dk (dedupe key),
-- ok (ordering key), rid and run, after, past, and nth, their order where they do not come in it. New messages are kept in `tx.new`, as lists that are written with a few commands for each kind of key: with the
-- next flush, which comes before anything that looks at messages or changes those that are there. So a batch of
-- thousands is some dozens of commands, unless each of its messages drops another.
-- `tx.alias` and `tx.dropped` know those of the same commit that were not stored.

local DUE_A_DROP = 10000

-- What became of a message in one letter: its state when it was stored, the same in upper case when it was diverted.
local LETTERS = {
  ready = 'r', delayed = 'd', waiting = 'w', blocked = 'b', dead = 'x', expired = 'e', cancelled = 'c',
}
local DUPLICATE, DROPPED = '=', '-'

local function begin(tx)
  tx.new = {bodies = {}, body_at = 0, extras = {}, extra_at = 0, spots = {}, runs = {}, originals = {}}
  return tx.new
end

-- What is new in one queue: who holds a dedupe or an ordering key, and what is to be written, by the last part of the
-- key: pairs of field and value, or score and member. `sizes` are their lengths, which Lua would have to search for.
local function spot_of(tx, new, queue)
  local spot = new.spots[queue]
  if not spot then
    spot = {head = queue .. struct.pack('>d', tx.now), d = {}, o = {}, lists = {r = {}, a = {}}, sizes = {r = 0, a = 0}}
    new.spots[queue] = spot
  end
  return spot
end

local function push(spot, part, one, two)
  local list, at = spot.lists[part], spot.sizes[part] or 0
  if not list then
    list = {}
    spot.lists[part] = list
  end
  list[at + 1], list[at + 2] = one, two
  spot.sizes[part] = at + 2
end

-- Counts new messages of a run, which is made on first use.
local function join_run(tx, rid, name, members, joined)
  local run = tx.root .. ':run:' .. rid
  if not L.hget(tx, run, 'name') then
    L.hset(tx, run, 'name', name)
    L.hset(tx, tx.root .. ':runs', rid, name)
    L.forget_runs(tx, joined)
  end
  L.hset(tx, run, 'at', L.text(tx.now))
  L.hincr(tx, run, 'total', #members / 2)
  L.add(tx, 'ZADD', run .. ':m', members)
  L.mark(tx, 'runs', rid)
end

local HASHES = {d = true, o = true}

function L.write_new(tx)
  local new = tx.new
  tx.new = nil
  L.add(tx, 'HSET', tx.m, new.bodies)
  L.add(tx, 'HSET', tx.x, new.extras)
  for queue, spot in pairs(new.spots) do
    for part, list in pairs(spot.lists) do
      L.add(tx, HASHES[part] and 'HSET' or 'ZADD', L.at(tx, queue) .. part, list)
    end
    if spot.sizes.r > 0 or spot.lists.t then
      L.mark(tx, 'wakes', queue)
    end
    L.hset(tx, tx.root .. ':newest', queue, tx.newest)
  end
  for rid, run in pairs(new.runs) do
    join_run(tx, rid, run.name, run.lists.m, new.runs)
  end
  L.show(tx, new.originals, tx.existing)
end

-- Who holds the keys of a column, by the number of the message.
local function holders(tx, batch, column, hash)
  local found, fields, numbers = {}, {}, {}
  if not column then
    return found
  end
  if not batch.of and not batch.sparse then
    return L.fetch(L.at(tx, batch.queues[1]) .. hash, column)
  end
  for n = 1, #batch.bodies do
    if column[n] then
      local queue = batch.queues[batch.of and batch.of[n] or 1]
      local of, at = fields[queue] or {}, numbers[queue] or {}
      fields[queue], numbers[queue] = of, at
      of[#of + 1], at[#at + 1] = column[n], n
    end
  end
  for queue, of in pairs(fields) do
    for n, holder in ipairs(L.fetch(L.at(tx, queue) .. hash, of)) do
      found[numbers[queue][n]] = holder
    end
  end
  return found
end

-- Who holds a key of a queue; `n` is the number of the message that asks, if it is for this queue.
local function holder_of(tx, queue, hash, field, n)
  local spot = tx.new and tx.new.spots[queue]
  local mine = spot and spot[hash][field]
  if mine then
    return mine, true
  end
  if n and tx.looked then
    return tx.looked[hash][n]
  end
  return L.hget(tx, L.at(tx, queue) .. hash, field)
end

-- Whether a live message has the dedupe key. One that has outlived its time leaves delivery, which frees it.
local function is_duplicate(tx, queue, key, dk, n)
  local holder, is_new = holder_of(tx, queue, 'd', dk, n)
  local msg = holder and not is_new and L.current(tx, holder)
  if not holder or not (is_new or msg) then
    return false
  end
  if msg and L.has_outlived(tx, msg) then
    L.flush(tx)
    L.fall(tx, holder, nil)
    L.flush(tx)
    return false
  end
  tx.alias[key] = holder
  local originals = (tx.new or begin(tx)).originals
  originals[#originals + 1] = holder
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
    if not oldest or L.is_before(found[1], oldest) then
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

-- What the journal keeps of a message beside its body: keys, run, and times that count from now.
local function kept_options(tx, x, available, expires)
  local kept = {dk = x.dk, ok = x.ok, run = x.run, ttl = expires and expires - tx.now}
  if available > tx.now then
    kept.delay = available - tx.now
  end
  return next(kept) and cmsgpack.pack(kept)
end

-- What is more to a message that another store held before.
local function past_of(past)
  return {
    at = past.attempts, er = past.error, fa = past.failed, en = past.ended_at,
    fo = past.forgiven > 0 and past.forgiven or nil, hi = #past.history > 0 and past.history or nil,
  }
end

local function enter_run(tx, rid, name, key, ended)
  local runs = tx.new.runs
  local run = runs[rid]
  if not run then
    run = {name = name, cancelled = L.hget(tx, tx.root .. ':run:' .. rid, 'cancelled'), lists = {}, sizes = {}}
    runs[rid] = run
  end
  if run.cancelled and not ended then
    L.refuse('RunCancelled', key)
  end
  push(run, 'm', '0', key)
end

-- The state of a message with options, which are noted in x; it is listed where that belongs, apart from the line.
local function place(tx, spot, queue, key, x, available, expires, ended, n)
  local dk, ok = x.dk, x.ok
  local state = ended or L.landing(tx, available, expires, x.wo or 0, ok and holder_of(tx, queue, 'o', ok, n))
  x.st, x.av, x.ex, x.en = state, available, expires, ended and x.en or (state == 'expired' and tx.now or nil)
  if state ~= 'ready' then
    push(spot, state, x.en or '0', key)
  end
  local due = L.due_at(state, available, expires)
  if due then
    push(spot, 't', due, key)
  end
  if state == 'blocked' then
    push(spot, 'b', '0', L.prefix(ok) .. key)
  elseif ok and HEADS[state] then
    push(spot, 'o', ok, key)
    spot.o[ok] = key
  end
  if dk and not ENDINGS[state] then
    push(spot, 'd', dk, key)
    spot.d[dk] = key
  end
  return state
end

local function journal(tx, queue, key, body, x, available, expires, state, was_ended)
  L.enter(tx, 'enqueued', queue, key, nil, nil, nil, nil, body, x and kept_options(tx, x, available, expires))
  if x and ENDINGS[state] then
    local notes = tx.notes
    tx.notes = not was_ended and notes or nil  -- that it ended is no news to whoever brings it
    L.enter(tx, ENDINGS[state], queue, key, x.at, nil, nil, was_ended and x.er)
    tx.notes = notes
  end
end

-- Makes room where there is none: what becomes of the message instead, or the queue that it is for.
local function make_room(tx, queue, key, limit)
  if limit.overflow == 'reject' then
    L.refuse('QueueFull', key)
  elseif limit.overflow == 'drop-newest' then
    count_dropped(tx, queue)
    tx.dropped[key] = true
    L.hset(tx, tx.root .. ':gone', key, TYPES.dropped)
    L.forget_removed(tx, 1)
    return DROPPED
  elseif limit.overflow == 'drop-oldest' then
    L.flush(tx)
    drop_oldest(tx, queue)
    L.flush(tx)
    return nil, queue
  end
  return nil, limit.spill
end

-- What becomes of a message before it is stored, if anything, and the queue that it is for.
local function admit(tx, queue, key, dk, limit, n)
  if dk and (is_duplicate(tx, queue, key, dk, n) or limit and limit.spill and is_duplicate(tx, limit.spill, key, dk)) then
    return DUPLICATE
  end
  if limit and limit.maxsize > 0 and load_of(tx, queue) >= limit.maxsize then
    return make_room(tx, queue, key, limit)
  end
  return nil, queue
end

local function split(text)
  local keys, sub = {}, string.sub
  for n = 1, #text / 8 do
    keys[n] = sub(text, n * 8 - 7, n * 8)
  end
  return keys
end

-- Whether an id that does not ascend is of this batch.
local function is_taken(tx, key)
  if not tx.known[tx.m] then
    L.flush(tx)
  end
  return L.hget(tx, tx.m, key)
end

-- The letters of what became of the messages, and the first of their new keys.
local function enqueue_all(tx, batch, limits)
  local keys, of, rests, scores, letters = split(batch.keys), batch.of, batch.bodies, batch.score, {}
  local dks, oks, delays, ttls = batch.dk, batch.ok, batch.delay, batch.ttl
  local rids, afters, pasts = batch.rid, batch.after, batch.past
  local taken, last, first = L.fetch(tx.m, keys), '', nil
  keys, first = L.in_commit_order(tx, batch, limits, keys, taken)
  tx.looked = {d = holders(tx, batch, dks, 'd'), o = holders(tx, batch, oks, 'o')}
  local more, keys_alone = {at = 0}, {}  -- what is more to a message, and to one that is ready at once
  local now, pack, spots_of, spot, spot_for = L.place(tx.now), cmsgpack.pack, nil, nil, nil
  for n = 1, #rests do
    local key, wanted, letter = keys[n], batch.queues[of and of[n] or 1], nil
    local dk, past, limit, queue = dks and dks[n], pasts and pasts[n], limits[wanted], wanted
    local ended = past and past.ended
    if (dk or limit) and not ended then
      letter, queue = admit(tx, queue, key, dk, limit, n)
    end
    if not letter then
      if taken[n] or key <= last and is_taken(tx, key) then
        L.refuse('IdTaken', key)
      end
      last = key > last and key or last
      local new = tx.new or begin(tx)
      if new ~= spots_of or queue ~= spot_for then
        spot, spots_of, spot_for = spot_of(tx, new, queue), new, queue
      end
      local state, member, head, x, packed, available, expires = 'ready', now, spot.head, nil, nil, nil, nil
      local ok, delay, ttl = oks and oks[n], delays and delays[n], ttls and ttls[n]
      local rid, after = rids and rids[n], afters and afters[n]
      if dk or ok or delay or ttl or rid or after or past then
        x, available, expires = more, tx.now + (delay or 0), ttl and tx.now + ttl
        if past then
          x, available, expires = past_of(past), past.available, past.expires
          head = queue .. struct.pack('>d', past.created)
        end
        x.dk, x.ok, x.rid, x.run = dk, ok, rid, rid and batch.run[n]
        if rid then
          enter_run(tx, rid, x.run, key, ended)
        end
        x.wo = after and L.wait_for(tx, key, after)
        state = place(tx, spot, queue, key, x, available, expires, ended, queue == wanted and n)
        member = (delay or past) and L.place(available) or now
        keys_alone.dk, keys_alone.ok = dk, ok
        packed = pack((delay or ttl or rid or past or x.wo or state ~= 'ready') and x or keys_alone)
        local at = new.extra_at
        new.extras[at + 1], new.extras[at + 2] = key, packed
        new.extra_at = at + 2
      end
      local body, at, sizes, lists = head .. rests[n], new.body_at, spot.sizes, spot.lists
      new.bodies[at + 1], new.bodies[at + 2] = key, body
      new.body_at = at + 2
      local all, all_at = lists.a, sizes.a
      all[all_at + 1], all[all_at + 2] = '0', key
      sizes.a = all_at + 2
      if state == 'ready' then
        local line, line_at = lists.r, sizes.r
        line[line_at + 1], line[line_at + 2] = scores and scores[n] or '0', member .. key
        sizes.r = line_at + 2
      end
      if afters then
        L.know(tx, tx.m, key, body)
        L.know(tx, tx.x, key, packed or false)
      end
      if tx.journal or tx.notes then
        journal(tx, queue, key, body, x, available, expires, state, ended)
      end
      if tx.loads and (state == 'ready' or state == 'blocked') then
        L.loaded(tx, queue, 1)
      end
      letter = queue == wanted and LETTERS[state] or string.upper(LETTERS[state])
    end
    letters[n] = letter
  end
  return letters, first
end

-- Applies the conditions and new messages of a commit: a letter for each message, the duplicates' originals, and the
-- first of the keys that its messages have instead of those they came with.
function L.enqueue(tx, topics, limits, batch)
  tx.alias, tx.dropped, tx.existing = {}, {}, {}
  for _, topic in ipairs(topics) do
    if (call('HGET', L.at(tx, topic[1]) .. 'q', 'subs') or '0') ~= topic[2] then
      L.refuse('SubscriptionsChanged', topic[1])
    end
  end
  if not batch then
    return {'', {}, false}
  end
  for queue, limit in pairs(limits) do
    if limit.maxsize > 0 then
      load_of(tx, queue)
    end
  end
  local letters, first = enqueue_all(tx, batch, limits)
  L.flush(tx)
  return {table.concat(letters), tx.existing, first}
end
