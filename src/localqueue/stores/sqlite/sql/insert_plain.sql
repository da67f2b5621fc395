INSERT INTO lq_messages (key, queue, state, priority, created_at, payload, codec, headers) VALUES (?, ?, 0, ?, ?, ?, ?, ?)
