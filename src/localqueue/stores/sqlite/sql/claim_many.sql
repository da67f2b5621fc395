UPDATE messages
   SET state = 2, attempts = attempts + 1, due_at = ?, leased_at = ?, leased_by = ?
 WHERE key IN (SELECT key FROM messages WHERE queue = ? AND state = 0
                ORDER BY priority DESC, available_at, key LIMIT ?)
RETURNING key, payload, codec, priority, attempts, created_at, available_at, leased_at, headers,
          dedupe_key, ordering_key, expires_at, run, last_error, failed_at
