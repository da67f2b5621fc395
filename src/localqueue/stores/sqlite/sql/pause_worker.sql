INSERT INTO lq_workers (queue, worker, paused_at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET paused_at = excluded.paused_at
