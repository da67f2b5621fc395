DELETE FROM lq_messages WHERE key IN (SELECT value FROM json_each(?1))
RETURNING key, history, dependents, run, ordering_key
