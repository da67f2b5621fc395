DELETE FROM messages
 WHERE key IN (SELECT value FROM json_each(?)) AND queue = ? AND state = 2 AND attempts = ?
RETURNING key, attempts, dependents, run, ordering_key
