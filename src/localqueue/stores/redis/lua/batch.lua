-- A batch decided and written as a whole, with a few commands for each kind of key. It is for messages that begin here
-- and now and find room: everything else takes the long way, one by one, and so does a batch that holds a surprise. That
-- can be said at any moment before the first write.

local function split(keys)
  local found, sub = {}, string.sub
  for n = 1, #keys / 8 do
    found[n] = sub(keys, n * 8 - 7, n * 8)
  end
  return found
end

-- Ids that are new: ascending, so that none is there twice, and not in use.
local function are_new(tx, keys)
  for n = 2, #keys do
    if keys[n] <= keys[n - 1] then
      return false
    end
  end
  for _, body in ipairs(L.fetch(tx.m, keys)) do
    if body then
      return false
    end
  end
  return true
end

local function have_room(tx, batch, limits)
  for queue, limit in pairs(limits) do
    if batch.dk and limit.spill then  -- a duplicate could be there as well
      return false
    end
    if limit.maxsize > 0 and L.load(tx, queue) + #batch.bodies > limit.maxsize then
      return false
    end
  end
  return true
end

-- Who holds the keys of a column, by the number of the message.
local function holders(tx, batch, column, hash)
  local found, spots = {}, {}
  if not column then
    return found
  end
  if not batch.of and not batch.sparse then
    return L.fetch(L.at(tx, batch.queues[1]) .. hash, column)
  end
  for n = 1, #batch.bodies do
    if column[n] then
      local queue = batch.queues[batch.of and batch.of[n] or 1]
      local spot = spots[queue]
      if not spot then
        spot = {fields = {}, numbers = {}, count = 0}
        spots[queue] = spot
      end
      local at = spot.count + 1
      spot.fields[at], spot.numbers[at], spot.count = column[n], n, at
    end
  end
  for queue, spot in pairs(spots) do
    for n, holder in ipairs(L.fetch(L.at(tx, queue) .. hash, spot.fields)) do
      found[spot.numbers[n]] = holder
    end
  end
  return found
end

-- What is to be written for one queue, by the last part of the key: pairs of field and value, or score and member.
-- `sizes` are their lengths, which Lua would have to search for.
local function new_spot(tx, queue)
  local head = queue .. struct.pack('>d', tx.now)
  return {head = head, holds = {}, heads = {}, r = {}, a = {}, sizes = {r = 0, a = 0}}
end

local function push(spot, part, one, two)
  local list, at = spot[part], spot.sizes[part] or 0
  if not list then
    list = {}
    spot[part] = list
  end
  list[at + 1], list[at + 2] = one, two
  spot.sizes[part] = at + 2
end

-- The state of a message with options, which are noted in x; nil for one that has no life left.
local function place(tx, spot, key, x, is_headed, delay, ttl)
  local dk, ok = x.dk, x.ok
  local available, expires = tx.now + (delay or 0), ttl and tx.now + ttl
  local state = L.landing(tx, available, expires, 0, ok and (is_headed or spot.heads[ok]))
  if state == 'expired' then
    return nil
  end
  x.st, x.av, x.ex = state, available, expires
  if state ~= 'ready' then
    push(spot, state, '0', key)
  end
  local due = L.due_at(state, available, expires)
  if due then
    push(spot, 't', due, key)
  end
  if state == 'blocked' then
    push(spot, 'b', '0', L.prefix(ok) .. key)
  elseif ok then
    push(spot, 'o', ok, key)
    spot.heads[ok] = key
  end
  if dk then
    push(spot, 'd', dk, key)
    spot.holds[dk] = key
  end
  return state
end

-- The runs of a batch by their digests: name, messages, and what is known of them; nil if one was cancelled.
local function find_runs(tx, batch)
  local runs = {}
  for n = 1, batch.run and #batch.bodies or 0 do
    local rid = batch.rid[n]
    if rid and not runs[rid] then
      L.prefetch(tx, tx.root .. ':run:' .. rid, {'name', 'cancelled', 'total'})
      if L.hget(tx, tx.root .. ':run:' .. rid, 'cancelled') then
        return nil
      end
      runs[rid] = {name = batch.run[n], m = {}, sizes = {}}
    end
  end
  return runs
end

local function join_runs(tx, runs)
  for rid, run in pairs(runs) do
    local key = tx.root .. ':run:' .. rid
    if run.m[1] then
      L.add(tx, 'ZADD', key .. ':m', run.m)
      L.join_run(tx, rid, run.name, #run.m / 2)
    end
  end
end

local HASHES = {d = true, o = true}
local PARTS = {'r', 'a', 't', 'd', 'o', 'b', 'delayed', 'blocked'}

local function write_all(tx, bodies, extras, spots)
  L.add(tx, 'HSET', tx.m, bodies)
  L.add(tx, 'HSET', tx.x, extras)
  for queue, spot in pairs(spots) do
    for _, part in ipairs(PARTS) do
      if spot[part] then
        L.add(tx, HASHES[part] and 'HSET' or 'ZADD', L.at(tx, queue) .. part, spot[part])
      end
    end
    if spot.r[1] or spot.t then
      L.mark(tx, 'wakes', queue)
    end
  end
end

function L.enqueue_all(tx, batch, limits)
  local keys, count, of = split(batch.keys), #batch.bodies, batch.of
  local runs = not (batch.after or batch.past) and find_runs(tx, batch)
  if not runs or not have_room(tx, batch, limits) or not are_new(tx, keys) then
    return nil
  end
  local dks, oks, delays, ttls, scores, rests = batch.dk, batch.ok, batch.delay, batch.ttl, batch.score, batch.bodies
  local rids = batch.rid
  local held, headed = holders(tx, batch, dks, 'd'), holders(tx, batch, oks, 'o')
  local letters, originals, bodies, extras, spots = {}, {}, {}, {}, {}
  local x, keys_alone = {at = 0}, {}  -- what is more to a message, and to one that is ready at once
  local now, pack, body_at, extra_at, spot, queue = L.place(tx.now), cmsgpack.pack, 0, 0, nil, nil
  for n = 1, count do
    local key = keys[n]
    if of or not spot then
      queue = batch.queues[of and of[n] or 1]
      spot = spots[queue] or new_spot(tx, queue)
      spots[queue] = spot
    end
    local dk, ok = dks and dks[n], oks and oks[n]
    local holder = dk and (held[n] or spot.holds[dk])
    if holder then
      local there = held[n] and L.current(tx, holder)
      if held[n] and (not there or L.has_outlived(tx, there)) then
        return nil
      end
      tx.alias[key] = holder
      originals[#originals + 1] = holder
      letters[n] = '='
    else
      local delay, ttl, state, sizes = delays and delays[n], ttls and ttls[n], 'ready', spot.sizes
      local member, rid = now, rids and rids[n]
      if dk or ok or delay or ttl or rid then
        x.dk, x.ok, keys_alone.dk, keys_alone.ok = dk, ok, dk, ok
        if rids then
          x.rid, x.run = rid, batch.run[n]
        end
        if rid then
          push(runs[rid], 'm', '0', key)
        end
        state = place(tx, spot, key, x, headed[n], delay, ttl)
        if not state then
          return nil
        end
        member = delay and L.place(x.av) or now
        local is_more = delay or ttl or rid or state ~= 'ready'
        extras[extra_at + 1], extras[extra_at + 2] = key, pack(is_more and x or keys_alone)
        extra_at = extra_at + 2
      end
      bodies[body_at + 1], bodies[body_at + 2] = key, spot.head .. rests[n]
      body_at = body_at + 2
      local all, at = spot.a, sizes.a
      all[at + 1], all[at + 2] = '0', key
      sizes.a = at + 2
      if state == 'ready' then
        local line, place_at = spot.r, sizes.r
        line[place_at + 1], line[place_at + 2] = scores and scores[n] or '0', member .. key
        sizes.r = place_at + 2
      end
      letters[n] = LETTERS[state]
    end
  end
  write_all(tx, bodies, extras, spots)
  join_runs(tx, runs)
  if tx.journal then
    for n = 1, count do
      if letters[n] ~= '=' then
        local new = L.row(batch, n)
        local body = spots[new.queue].head .. new.rest
        L.enter(tx, 'enqueued', new.queue, new.key, nil, nil, nil, nil, body, not new.plain and L.kept_options(tx, new))
      end
    end
  end
  local existing = {}
  L.show_all(tx, existing, originals)
  return letters, existing
end
