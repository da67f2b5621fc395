-- Messages that come after messages.

-- Adds an edge; whether the upstream is still to be acked and the edge is new.
local function add_edge(tx, upstream, dependent)
  if upstream == '' then
    L.refuse('UnknownMessage', dependent, '')
  end
  local body = call('HGET', tx.m, upstream)
  if not body then
    if tx.dropped[upstream] or call('HEXISTS', tx.root .. ':gone', upstream) == 1 then
      L.refuse('UnknownMessage', dependent, upstream)
    end
    return false
  end
  local packed = call('HGET', tx.x, upstream)
  local x = packed and cmsgpack.unpack(packed) or {}
  if not x.dp then
    x.dp = 1
    L.hset(tx, tx.x, upstream, cmsgpack.pack(x))
  end
  if L.zadd(tx, tx.root .. ':up', 0, upstream .. dependent) == 0 then
    return false
  end
  L.zadd(tx, tx.root .. ':dn', 0, dependent .. upstream)
  return true
end

-- Records what a message comes after; how many of them are not acked yet.
function L.wait_for(tx, new)
  local waiting, seen = 0, {}
  for _, one in ipairs(new.after) do
    local upstream = tx.alias[one] or one
    if not seen[upstream] or upstream == '' then
      seen[upstream] = true
      if add_edge(tx, upstream, new.key) then
        waiting = waiting + 1
      end
    end
  end
  return waiting
end

-- Whether one message comes after another, directly or through others; a message comes after itself.
local function waits_for(tx, waiting, upstream)
  local seen, open = {[waiting] = true}, {waiting}
  while #open > 0 do
    local key = table.remove(open)
    if key == upstream then
      return true
    end
    for _, edge in ipairs(call('ZRANGEBYLEX', tx.root .. ':dn', '[' .. key, '(' .. key .. string.rep('\255', 9))) do
      local above = string.sub(edge, 9)
      if not seen[above] then
        seen[above] = true
        open[#open + 1] = above
      end
    end
  end
  return false
end

function L.add_edges(tx, read)
  for n = 1, read.number() do
    local up, down = read.text(), read.text()
    local upstream, dependent = tx.alias[up] or up, tx.alias[down] or down
    local msg = dependent ~= '' and L.current(tx, dependent)
    if not msg or msg.state ~= 'waiting' then
      L.refuse('NotWaiting', n, msg and msg.state or 'gone')
    end
    if upstream ~= '' and waits_for(tx, upstream, dependent) then
      L.refuse('CircularDependency', n)
    end
    if add_edge(tx, upstream, dependent) then
      msg.x.wo = (msg.x.wo or 0) + 1
      L.save(tx, msg)
    end
  end
end

-- An upstream was acked: those that waited for nothing else land.
function L.free_dependents(tx, upstream)
  local edges = call('ZRANGEBYLEX', tx.root .. ':up', '[' .. upstream, '(' .. upstream .. string.rep('\255', 9))
  for _, edge in ipairs(edges) do
    local key = string.sub(edge, 9)
    L.zrem(tx, tx.root .. ':up', edge)
    L.zrem(tx, tx.root .. ':dn', key .. upstream)
    local msg = L.current(tx, key)
    if msg then
      msg.x.wo = msg.x.wo - 1
      if msg.x.wo == 0 and msg.state == 'waiting' then
        L.land(tx, msg, math.max(msg.available, tx.now), msg.x.ex)
      else
        L.save(tx, msg)
      end
    end
  end
end
