-- The end of a call that changed something: entries of the journal, and one word to those who wait.

local LOOK_EVERY, LOOK_AT = 64, 128
local MOST_NAMES = 16

local function trim(tx, log, seq, keep_seconds, keep_events)
  local old = {}
  for _, entry in ipairs(call('XRANGE', log, '-', '+', 'COUNT', LOOK_AT)) do
    local number = tonumber(string.match(entry[1], '^%d+'))
    local at = tonumber(entry[2][2])
    if (keep_events and number <= seq - keep_events) or (keep_seconds and at < tx.now - keep_seconds) then
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

-- Whether somebody left a mark that has not expired. Marks go by the server's clock, whatever time a test gives.
local function is_awaited(key)
  local mark = call('HGET', key, 'awaited')
  return mark and tonumber(mark) > L.clock()
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
    if is_awaited(tx.root .. ':run:' .. run) then
      names[#names + 1] = run
    end
  end
  if #names > 0 then
    call('PUBLISH', tx.root, #names <= MOST_NAMES and table.concat(names, ' ') or '*')
  end
end

function L.finish(tx)
  if tx.journal and #tx.journal > 0 then
    L.write_journal(tx)
  end
  if tx.wakes or tx.rooms or tx.runs then
    L.tell(tx)
  end
end

-- Wraps what writes: `body` gets the call's context and a reader of the arguments behind the time and the flags
-- ('o' observe, 'u' keep an undo log). A refusal leaves everything as it was.
function L.writing(body)
  return function(keys, args)
    local tx
    local ok, result = pcall(function()
      tx = L.open(keys, args)
      if string.find(args[2], 'o', 1, true) then
        tx.notes = {}
      end
      if string.find(args[2], 'u', 1, true) then
        tx.undo = {}
      end
      return body(tx, L.reader(args, 3))
    end)
    if not ok then
      if tx then
        L.take_back(tx)
      end
      if type(result) == 'table' and result.refusal then
        return {'!', unpack(result.refusal)}
      end
      error(result)
    end
    L.finish(tx)
    return {L.text(tx.now), result, tx.notes or false}
  end
end

function L.reading(body)
  return function(keys, args)
    local ok, result = pcall(function()
      local tx = L.open(keys, args)
      return {L.text(tx.now), body(tx, L.reader(args, 2))}
    end)
    if ok then
      return result
    end
    if type(result) == 'table' and result.refusal then
      return {'!', unpack(result.refusal)}
    end
    error(result)
  end
end
