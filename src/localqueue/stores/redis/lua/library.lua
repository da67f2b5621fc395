-- The functions by name. Those that can only shrink the data, or that consumers need to shrink it, also run when the
-- server is out of memory.

local function register(name, callback, flags)
  local function run(keys, args)
    call = redis.call
    return callback(keys, args)
  end
  redis.register_function{function_name = PREFIX .. name, callback = run, flags = flags or {}}
end

local function write(name, body, flags)
  register(name, L.writing(body), flags)
end

local function read(name, body)
  register(name, L.reading(body), {'no-writes', 'allow-stale'})
end

local DRAINS = {'allow-oom'}

register('namespace', namespace)
register('opened', opened, {'no-writes', 'allow-stale'})
register('put', put)
register('put_batch', put_batch)
register('ack', ack, DRAINS)
write('lease', lease, DRAINS)
write('step', step, DRAINS)
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
write('name_queue', L.name_queue)
write('enable_journal', L.enable_journal)
write('disable_journal', L.disable_journal, DRAINS)
write('prune_events', L.prune_events, DRAINS)
write('room', L.room, DRAINS)
write('await_run', L.await_run, DRAINS)

read('get', L.get)
read('scan', L.scan)
read('splits', L.splits)
read('counts', function(tx, args) return L.count_list(tx, args.text()) end)
read('stats', function(tx, args) return L.stats(tx, args.text()) end)
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
