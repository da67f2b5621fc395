COPY localqueue.lq_messages
  (key, queue, state, priority, created_at, available_at, payload, is_text, codec, headers, due_at, ended_at, expires_at,
   waiting_on, dependents, run, ordering_key, dedupe_key, attempts, forgiven, history, last_error, failed_at)
FROM STDIN (FORMAT binary)
