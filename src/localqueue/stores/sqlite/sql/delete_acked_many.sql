DELETE FROM messages WHERE key IN (SELECT value FROM json_each(?))
RETURNING key, history, dependents, run, ordering_key
