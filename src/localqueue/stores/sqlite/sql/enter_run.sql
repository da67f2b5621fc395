INSERT INTO lq_runs (namespace, name) VALUES (?, ?) ON CONFLICT DO UPDATE SET name = name RETURNING id, cancelled_at
