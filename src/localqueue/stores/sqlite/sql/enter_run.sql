INSERT INTO lq_runs (namespace, name, touched_at) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET touched_at = iif(excluded.touched_at > touched_at + 3600, excluded.touched_at, touched_at)
RETURNING id, cancelled_at
