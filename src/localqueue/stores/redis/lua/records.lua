-- Records. A write has a field (its kind and key), a value unless it deletes, a new version, and perhaps the version it
-- expects: eight zero bytes for absence. A version is never used again, so a stale one can not match by chance.

local ABSENT = '\0\0\0\0\0\0\0\0'

-- Refuses writes whose record is not in the version they expect, counting those before them; changes nothing.
function L.check_records(tx, writes)
  local known, fields, expecting = {}, {}, false
  for n, write in ipairs(writes) do
    fields[n] = write.field
    expecting = expecting or write.expect
  end
  if not expecting then
    return
  end
  L.prefetch(tx, tx.root .. ':rec', fields)
  for n, write in ipairs(writes) do
    local version = known[write.field]
    if not version then
      local found = L.hget(tx, tx.root .. ':rec', write.field)
      version = found and string.sub(found, 1, 8) or ABSENT
    end
    if write.expect and write.expect ~= version then
      L.refuse('RecordConflict', n, version)
    end
    known[write.field] = write.value and write.version or ABSENT
  end
end

function L.write_records(tx, writes)
  for _, write in ipairs(writes) do
    local value = write.value and write.version .. struct.pack('>d', tx.now) .. write.value
    L.hset(tx, tx.root .. ':rec', write.field, value or false)
    L.zset(tx, tx.root .. ':recs', write.field, value and 0 or false)
  end
end
