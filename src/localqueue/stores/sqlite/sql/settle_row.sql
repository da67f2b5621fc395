SELECT state, attempts, forgiven, available_at, expires_at, leased_at, leased_by, ordering_key, dependents, run,
       last_error
  FROM messages WHERE key = ? AND queue = ?
