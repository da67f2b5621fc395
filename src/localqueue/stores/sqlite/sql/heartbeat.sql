INSERT INTO lq_workers (queue, worker, last_seen, leases) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET last_seen = excluded.last_seen, leases = leases + excluded.leases
