-- The journal: a stream that every call writes at its end, while it is switched on.

local LOOK_EVERY, LOOK_AT = 64, 128

local function time_of(log, number)
  local id = string.format('%.0f-0', number)
  local entry = call('XRANGE', log, id, id)[1]
  return entry and tonumber(entry[2][2])
end

-- The number of the last entry, among some that are farther and farther from the newest, that is older than that.
local function last_before(log, seq, since)
  local distance = LOOK_EVERY
  while distance < seq do
    local at = time_of(log, seq - distance)
    if at and at < since then
      return seq - distance
    end
    distance = distance * 2
  end
  return 0
end

-- By the rule of `localqueue.stores.retention`.
local function trim(tx, log, seq, keep_seconds, keep_events)
  local old, behind = {}, nil
  local confirmed = keep_seconds and seq > LOOK_EVERY and time_of(log, seq - LOOK_EVERY)
  local since = confirmed and math.min(tx.now, confirmed) - keep_seconds
  for _, entry in ipairs(call('XRANGE', log, '-', '+', 'COUNT', LOOK_AT)) do
    local number = tonumber(string.match(entry[1], '^%d+'))
    local at = tonumber(entry[2][2])
    if since and at > tx.now then
      behind = behind or last_before(log, seq, since)
    end
    if (keep_events and number <= seq - keep_events)
      or (since and (at < since or (at > tx.now and number < behind))) then
      old[#old + 1] = entry[1]
    end
  end
  L.many('XDEL', log, old)
end

-- An entry holds the time first; then its type, queue, message, and what else is known.
function L.write_journal(tx)
  local log = tx.root .. ':log'
  local meta = call('HMGET', tx.root, 'seq', 'keep_seconds', 'keep_events')
  local seq, keep_seconds, keep_events = tonumber(meta[1] or '0'), tonumber(meta[2] or ''), tonumber(meta[3] or '')
  for _, entry in ipairs(tx.journal) do
    seq = seq + 1
    local fields = {'at', L.text(tx.now), 't', entry[1], 'q', entry[2], 'k', entry[3]}
    for n, name in ipairs({'n', 'w', 'e', 'b', 'o'}) do
      if entry[3 + n] then
        fields[#fields + 1] = name
        fields[#fields + 1] = entry[3 + n]
      end
    end
    call('XADD', log, string.format('%.0f-0', seq), unpack(fields))
    if seq % LOOK_EVERY == 0 and (keep_seconds or keep_events) then
      trim(tx, log, seq, keep_seconds, keep_events)
    end
  end
  call('HSET', tx.root, 'seq', string.format('%.0f', seq))
end

function L.set_journal(tx, args)
  L.hset(tx, tx.root, 'journal', args.on and '1' or '0')
  if args.on then
    L.hset(tx, tx.root, 'keep_seconds', args.seconds and L.text(args.seconds) or false)
    L.hset(tx, tx.root, 'keep_events', args.events and string.format('%.0f', args.events) or false)
  end
end

function L.prune_events(tx, args)
  local before, last, log, from, removed = tx.now - args.older_than, args.through or '+', tx.root .. ':log', '-', 0
  while true do
    local entries = call('XRANGE', log, from, last, 'COUNT', CHUNK)
    if #entries == 0 then
      return removed
    end
    local old = {}
    for _, entry in ipairs(entries) do
      if tonumber(entry[2][2]) <= before then
        old[#old + 1] = entry[1]
      end
    end
    L.many('XDEL', log, old)
    removed = removed + #old
    from = '(' .. entries[#entries][1]
  end
end

function L.events(tx, args)
  local limit, queue = args.limit, args.queue
  local from, found = string.format('(%.0f-0', args.after), {}
  while #found ~= limit do
    local size = (limit > 0 and not queue) and math.min(CHUNK, limit - #found) or CHUNK
    local entries = call('XRANGE', tx.root .. ':log', from, '+', 'COUNT', size)
    if #entries == 0 then
      break
    end
    for _, entry in ipairs(entries) do
      if #found ~= limit and (not queue or entry[2][6] == queue) then
        found[#found + 1] = entry
      end
    end
    from = '(' .. entries[#entries][1]
  end
  return found
end

-- The number of the last entry, and the name of the first that is kept.
function L.journal_span(tx)
  local first = call('XRANGE', tx.root .. ':log', '-', '+', 'COUNT', 1)[1]
  return {call('HGET', tx.root, 'seq') or '0', first and first[1] or false}
end
