SELECT key FROM messages WHERE queue = ? AND due_at <= ? ORDER BY due_at, key LIMIT ?
