SELECT key, state, available_at, expires_at, attempts, forgiven, ordering_key, leased_at, leased_by, due_at
  FROM messages
 WHERE queue = ? AND state IN (0, 1, 2, 3, 4) AND due_at <= ?
 ORDER BY due_at, key
 LIMIT ?
