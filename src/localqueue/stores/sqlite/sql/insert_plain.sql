INSERT INTO messages (key, queue, state, priority, created_at, payload, codec, headers) VALUES (?, ?, 0, ?, ?, ?, ?, ?)
