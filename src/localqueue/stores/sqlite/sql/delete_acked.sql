DELETE FROM messages WHERE key = ? RETURNING history, dependents, run, ordering_key
