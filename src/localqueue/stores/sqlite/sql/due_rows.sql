 WHERE m.queue = ?1 AND m.due_at <= ?2 ORDER BY m.due_at, m.key LIMIT ?3
