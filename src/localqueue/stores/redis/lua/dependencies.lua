-- Messages that come after messages.

-- Adds an edge; whether the upstream is still to be acked.
local function add_edge(tx, upstream, dependent)
  if upstream == '' then
    L.refuse('UnknownMessage', dependent, '')
  end
  if not L.hget(tx, tx.m, upstream) then
    if tx.dropped[upstream] or L.hget(tx, tx.root .. ':gone', upstream) then
      L.refuse('UnknownMessage', dependent, upstream)
    end
    if upstream < L.remembered_from(tx) then
      L.refuse('Forgotten', dependent, upstream)
    end
    return false
  end
  local packed = L.hget(tx, tx.x, upstream)
  local x = packed and cmsgpack.unpack(packed) or {}
  if not x.dp then
    x.dp = 1
    L.hset(tx, tx.x, upstream, cmsgpack.pack(x))
  end
  L.zset(tx, tx.root .. ':up', upstream .. dependent, 0)
  L.zset(tx, tx.root .. ':dn', dependent .. upstream, 0)
  return true
end

-- Records what a new message comes after; how many of them are not acked yet, if any.
function L.wait_for(tx, key, after)
  local waiting, seen = 0, {}
  for _, one in ipairs(after) do
    local upstream = L.named(tx, one)
    if not seen[upstream] then
      seen[upstream] = true
      if add_edge(tx, upstream, key) then
        waiting = waiting + 1
      end
    end
  end
  return waiting > 0 and waiting or nil
end

-- Whether one message comes after another, directly or through others; a message comes after itself.
local function waits_for(tx, waiting, upstream)
  local seen, open = {[waiting] = true}, {waiting}
  while #open > 0 do
    local key = table.remove(open)
    if key == upstream then
      return true
    end
    for _, edge in ipairs(L.behind(tx, tx.root .. ':dn', key)) do
      local above = string.sub(edge, 9)
      if not seen[above] then
        seen[above] = true
        open[#open + 1] = above
      end
    end
  end
  return false
end

function L.add_edges(tx, edges)
  for n, edge in ipairs(edges) do
    local upstream, dependent = L.named(tx, edge[1]), L.named(tx, edge[2])
    local msg = dependent ~= '' and L.current(tx, dependent)
    if not msg or msg.state ~= 'waiting' then
      L.refuse('NotWaiting', n, msg and msg.state or 'gone')
    end
    if upstream ~= '' and waits_for(tx, upstream, dependent) then
      L.refuse('CircularDependency', n)
    end
    local is_there = L.zscore(tx, tx.root .. ':up', upstream .. dependent)
    if add_edge(tx, upstream, dependent) and not is_there then
      msg.x.wo = (msg.x.wo or 0) + 1
      L.save(tx, msg)
    end
  end
end

-- An upstream was acked: those that waited for nothing else land.
function L.free_dependents(tx, upstream)
  for _, edge in ipairs(L.behind(tx, tx.root .. ':up', upstream)) do
    local key = string.sub(edge, 9)
    L.zset(tx, tx.root .. ':up', edge, false)
    L.zset(tx, tx.root .. ':dn', key .. upstream, false)
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
