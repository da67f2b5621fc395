 WHERE m.queue = ? AND m.ordering_key = ? AND m.state = 4 AND m.key > ? ORDER BY m.key LIMIT 1
