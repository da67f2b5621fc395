-- Messages by state, with those that are due counted as what the next claim would make of them.

local STATES = {'ready', 'delayed', 'inflight', 'waiting', 'blocked', 'dead', 'expired', 'cancelled'}
local LINES = {ready = 'r', inflight = 'i'}  -- the set of a state, where it does not have its name

function L.in_order(counts)
  local found = {}
  for n, state in ipairs(STATES) do
    found[n] = counts[state] or 0
  end
  return found
end

local function recount(kept, from, to)
  kept[from] = kept[from] - 1
  kept[to] = kept[to] + 1
end

function L.counts(tx, queue)
  L.flush(tx)
  local q = L.at(tx, queue)
  local kept = {}
  for _, state in ipairs(STATES) do
    kept[state] = call('ZCARD', q .. (LINES[state] or state))
  end
  local leased = call('ZRANGEBYSCORE', q .. 'i', '-inf', tx.now)
  local leases, extras = L.fetch(tx.l, leased), L.fetch(tx.x, leased)
  for n = 1, #leased do
    local l, x = L.lease_of(leases[n]), extras[n] and cmsgpack.unpack(extras[n]) or {}
    if l.most and l.token - (x.fo or 0) >= l.most then
      recount(kept, 'inflight', 'dead')
    else
      recount(kept, 'inflight', x.ex and x.ex <= tx.now and 'expired' or 'ready')
    end
  end
  local due = call('ZRANGEBYSCORE', q .. 't', '-inf', tx.now)
  extras = L.fetch(tx.x, due)
  for n = 1, #due do
    local x = cmsgpack.unpack(extras[n])
    if x.ex and x.ex <= tx.now then
      recount(kept, x.st or 'ready', 'expired')
    elseif x.st == 'delayed' then
      recount(kept, x.st, 'ready')
    end
  end
  return kept
end

function L.load(tx, queue)
  local kept = L.counts(tx, queue)
  return kept.ready + kept.blocked
end

-- When the ready message that waits longest became available, counting those that are due but not claimed since.
local function oldest_ready(tx, queue)
  local q, since = L.at(tx, queue), {}
  local first = L.oldest_ready(tx, queue)
  if first then
    since[1] = struct.unpack('>d', first)
  end
  for _, key in ipairs(call('ZRANGEBYSCORE', q .. 't', '-inf', tx.now)) do
    local x = cmsgpack.unpack(call('HGET', tx.x, key))
    if x.st == 'delayed' and not (x.ex and x.ex <= tx.now) then
      since[#since + 1] = x.av
      break
    end
  end
  local lease = call('ZRANGEBYSCORE', q .. 'i', '-inf', tx.now, 'WITHSCORES', 'LIMIT', 0, 1)
  if lease[2] then
    since[#since + 1] = tonumber(lease[2])
  end
  return #since > 0 and L.text(math.min(unpack(since))) or false
end

function L.stats(tx, args)
  local queue = args.queue
  local q = L.at(tx, queue)
  local held = call('ZRANGEBYSCORE', q .. 'i', '(' .. L.text(tx.now), '+inf')
  local leases, by_worker, holders = L.fetch(tx.l, held), {}, {}
  for n = 1, #held do
    local l = L.lease_of(leases[n])
    local one = by_worker[l.by or false] or {l.by or false, 0, l.since, 0}
    if one[2] == 0 then
      by_worker[l.by or false], holders[#holders + 1] = one, one
    end
    one[2], one[3], one[4] = one[2] + 1, math.min(one[3], l.since), one[4] + l.since
  end
  for _, one in ipairs(holders) do
    one[3], one[4] = L.text(one[3]), L.text(one[4])
  end
  return {
    L.in_order(L.counts(tx, queue)), holders, call('HGETALL', q .. 'w'), call('HGETALL', q .. 'q'), oldest_ready(tx, queue),
  }
end
