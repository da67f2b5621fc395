INSERT INTO lq_messages (key, queue, state, priority, attempts, created_at, available_at, payload, codec, headers, due_at,
                         forgiven, history, dependents, waiting_on, run, ordering_key, dedupe_key, expires_at, last_error,
                         failed_at, ended_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
