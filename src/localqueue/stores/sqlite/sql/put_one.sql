INSERT INTO lq_putting (key, queue, priority, created_at, payload, codec) VALUES (?, ?, 0, ?, ?, ?)
