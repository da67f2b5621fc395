INSERT INTO lq_workers (queue, worker, leases) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET leases = leases + excluded.leases RETURNING leases
