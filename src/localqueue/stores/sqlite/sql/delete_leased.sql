DELETE FROM messages WHERE key = ? AND queue = ? AND state = 2 AND attempts = ?
RETURNING attempts, dependents, run, ordering_key
