SELECT key FROM lq_messages WHERE queue = ? AND due_at <= ? ORDER BY due_at, key LIMIT ?
