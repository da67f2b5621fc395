-- The functions by name. Those that can only shrink the data, or that consumers need to shrink it, also run when the
-- server is out of memory.

local function register(name, callback, flags)
  local function run(keys, args)
    call = redis.call
    return callback(keys, args)
  end
  redis.register_function{function_name = PREFIX .. name, callback = run, flags = flags or {}}
end

function L.finish(tx)
  L.flush(tx)
  if tx.journal and #tx.journal > 0 then
    L.write_journal(tx)
  end
  if tx.wakes or tx.rooms or tx.runs or tx.told then
    L.tell(tx)
  end
end

-- `body` gets the call's context and its arguments, which come behind the time and the flags ('o': tell the caller of
-- transitions). A refusal leaves everything as it was.
local function write(name, body, flags)
  register(name, function(keys, args)
    local tx
    local ok, result = pcall(function()
      tx = L.open(keys, args)
      tx.notes = args[2] == 'o' and {} or nil
      local result = body(tx, cmsgpack.unpack(args[3]))
      L.finish(tx)
      return result
    end)
    if ok then
      return {L.text(tx.now), result or false, tx.notes or false}
    end
    if tx then
      L.take_back(tx)
    end
    if type(result) == 'table' and result.refusal then
      return {'!', unpack(L.as_given(tx, result.refusal))}
    end
    error(result)
  end, flags)
end

local function read(name, body)
  write(name, body, {'no-writes', 'allow-stale'})
end

local DRAINS = {'allow-oom'}

register('namespace', namespace)
register('privileges', privileges, {'no-writes', 'allow-stale'})
register('put', put)
register('ack', ack, DRAINS)
write('lease', lease, DRAINS)
write('commit', commit)
write('settle', commit, DRAINS)
write('renew', L.renew, DRAINS)
write('requeue', L.requeue)
write('prune', L.prune, DRAINS)
write('purge', L.purge, DRAINS)
write('cancel_run', L.cancel_run, DRAINS)
write('pause', L.pause, DRAINS)
write('heartbeat', L.heartbeat, DRAINS)
write('subscribe', L.subscribe)
write('name_queues', L.name_queues)
write('set_journal', L.set_journal, DRAINS)
write('prune_events', L.prune_events, DRAINS)
write('room', L.room, DRAINS)
write('await_run', L.await_run, DRAINS)

read('get', L.get)
read('scan', L.scan)
read('splits', L.splits)
read('counts', function(tx, args) return L.in_order(L.counts(tx, args.queue)) end)
read('stats', L.stats)
read('run', L.run)
read('run_messages', L.run_messages)
read('upstream', L.upstream)
read('records', L.records)
read('subscriptions', L.subscriptions)
read('prunable', L.prunable)
read('events', L.events)
read('journal_span', L.journal_span)
read('look', L.look)
read('check', L.check)
