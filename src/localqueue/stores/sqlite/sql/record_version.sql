SELECT version FROM lq_records WHERE namespace = ? AND kind = ? AND key = ?
