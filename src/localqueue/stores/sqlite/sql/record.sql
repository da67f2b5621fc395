SELECT kind, key, value, version, updated_at FROM lq_records WHERE namespace = ? AND kind = ? AND key = ?
