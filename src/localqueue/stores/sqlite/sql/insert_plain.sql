INSERT INTO messages (key, queue, state, priority, available_at, created_at, payload, codec, headers)
VALUES (?, ?, 0, ?, ?, ?, ?, ?, ?)
