SELECT payload, codec, priority, created_at, coalesce(available_at, created_at), headers, dedupe_key, ordering_key,
       expires_at, (SELECT name FROM lq_runs WHERE id = run), last_error, failed_at, history
  FROM lq_messages WHERE key = ?
