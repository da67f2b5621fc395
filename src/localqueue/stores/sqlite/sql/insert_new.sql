-- Messages that nothing has happened to yet; the rows are written behind this (inserts.py).
INSERT INTO lq_messages (key, queue, state, priority, created_at, available_at, codec, headers, run, expires_at, payload,
                         due_at, ordering_key, dedupe_key)
VALUES
