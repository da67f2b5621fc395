-- Records. A version is never used again, so a stale `expect` can not match by chance. `expect` is '' for any version
-- and eight zero bytes for absence.

local ABSENT = '\0\0\0\0\0\0\0\0'

function L.read_records(read)
  local writes = {}
  for n = 1, read.number() do
    local kind, key = L.prefix(read.text()), read.text()
    writes[n] = {
      field = kind .. key, value = read.optional(), version = read.text(), expect = read.text(),
    }
  end
  return writes
end

-- Refuses writes whose record is not in the version they expect, counting those before them; changes nothing.
function L.check_records(tx, writes)
  local known = {}
  for n, write in ipairs(writes) do
    local version = known[write.field]
    if not version then
      local found = call('HGET', tx.root .. ':rec', write.field)
      version = found and string.sub(found, 1, 8) or ABSENT
    end
    if write.expect ~= '' and write.expect ~= version then
      L.refuse('RecordConflict', n, version)
    end
    known[write.field] = write.value and write.version or ABSENT
  end
end

function L.write_records(tx, writes)
  local rec, order = tx.root .. ':rec', tx.root .. ':recs'
  for _, write in ipairs(writes) do
    if write.value then
      L.hset(tx, rec, write.field, write.version .. struct.pack('>d', tx.now) .. write.value)
      L.zadd(tx, order, 0, write.field)
    else
      L.hdel(tx, rec, write.field)
      L.zrem(tx, order, write.field)
    end
  end
end
