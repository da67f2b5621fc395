-- Looks whether everything that is kept twice agrees; every problem as one sentence.

local MOST_PROBLEMS = 50

local function hex(key)
  return (string.gsub(key, '.', function(c) return string.format('%02x', string.byte(c)) end))
end

local function check_place(tx, q, msg, problem)
  local key, x = msg.key, msg.x
  if msg.lease then
    local ends = tonumber(call('ZSCORE', q .. 'i', key) or 'nan')
    if ends ~= msg.lease.till then
      problem('a leased message is not among the leases, or with another end', hex(key))
    end
  elseif msg.state == 'ready' then
    local score = tonumber(call('ZSCORE', q .. 'r', L.place(msg.available) .. key) or 'nan')
    if score ~= L.score(msg.body) then
      problem('a ready message is not in line, or in the wrong place', hex(key))
    end
  elseif tonumber(call('ZSCORE', q .. msg.state, key) or 'nan') ~= (x.en or 0) then
    problem('a ' .. msg.state .. ' message is not listed as such', hex(key))
  end
  local due = not msg.lease and L.due_at(msg.state, msg.available, x.ex) or nil
  local timer = tonumber(call('ZSCORE', q .. 't', key) or '')
  if due ~= timer then
    problem('a message has the wrong timer', hex(key))
  end
end

local function check_keys(tx, q, msg, problem)
  local key, x = msg.key, msg.x
  if x.dk and not ENDINGS[msg.state] and call('HGET', q .. 'd', x.dk) ~= key then
    problem('a live message does not hold its dedupe key', hex(key))
  end
  if x.ok then
    local holder = call('HGET', q .. 'o', x.ok)
    if HEADS[msg.state] and holder ~= key then
      problem('an ordering key has two messages in delivery', hex(key))
    elseif msg.state == 'blocked' and not holder then
      problem('a message is blocked behind an ordering key that nobody holds', hex(key))
    elseif msg.state == 'blocked' and not call('ZSCORE', q .. 'b', L.prefix(x.ok) .. key) then
      problem('a blocked message is not listed behind its ordering key', hex(key))
    end
  end
  local above = #L.behind(tx, tx.root .. ':dn', key)
  if above ~= (x.wo or 0) then
    problem('a message does not count its dependencies', hex(key))
  end
  if x.rid and not call('ZSCORE', tx.root .. ':run:' .. x.rid .. ':m', key) then
    problem('a message is not listed in its run', hex(key))
  end
end

local function check_queue(tx, queue, problem)
  local q = L.at(tx, queue)
  local keys = call('ZRANGE', q .. 'a', 0, -1)
  local found = L.show(tx, keys)
  local blocked, deduped, heads = 0, 0, 0
  for n = 1, #found, 4 do
    local key, body = found[n], found[n + 1]
    if not body or string.sub(body, 1, QUEUE) ~= queue then
      problem('a queue lists a message that is not there', hex(key))
    else
      local msg = L.message(key, body, found[n + 2], found[n + 3])
      check_place(tx, q, msg, problem)
      check_keys(tx, q, msg, problem)
      blocked = blocked + (msg.state == 'blocked' and 1 or 0)
      deduped = deduped + (msg.x.dk and not ENDINGS[msg.state] and 1 or 0)
      heads = heads + (L.holds_key(msg) and 1 or 0)
    end
  end
  local listed = 0
  for _, state in ipairs(STATES) do
    listed = listed + call('ZCARD', q .. (LINES[state] or state))
  end
  if listed ~= #keys then
    problem('a queue lists another number of messages by state than it has', queue)
  end
  if call('ZCARD', q .. 'b') ~= blocked or call('HLEN', q .. 'o') ~= heads then
    problem('ordering keys are listed that no message has', queue)
  end
  if call('HLEN', q .. 'd') ~= deduped then
    problem('dedupe keys are listed that no live message has', queue)
  end
  local last, newest = keys[#keys], call('HGET', tx.root .. ':newest', queue)
  if last and (not newest or L.is_newer(last, newest)) then
    problem('a queue has a message that is newer than it knows', hex(last))
  end
  return #keys, call('ZCARD', q .. 'i')
end

function L.check(tx)
  local problems, total, leases = {}, 0, 0
  local function problem(text, what)
    if #problems < MOST_PROBLEMS then
      problems[#problems + 1] = text .. ': ' .. what
    end
  end
  for _, queue in ipairs(call('HKEYS', tx.root .. ':names')) do
    local messages, leased = check_queue(tx, queue, problem)
    total, leases = total + messages, leases + leased
  end
  if call('HLEN', tx.m) ~= total then
    problem('messages are stored that no queue lists', tostring(call('HLEN', tx.m) - total))
  end
  if call('HLEN', tx.l) ~= leases then
    problem('leases are stored that no queue lists', tostring(call('HLEN', tx.l) - leases))
  end
  if call('ZCARD', tx.root .. ':up') ~= call('ZCARD', tx.root .. ':dn') then
    problem('dependencies are not the same from both sides', tx.root)
  end
  if call('HLEN', tx.root .. ':rec') ~= call('ZCARD', tx.root .. ':recs') then
    problem('records are not the same by key and in order', tx.root)
  end
  return problems
end
