SELECT worker, leases, last_seen, paused_at FROM localqueue.lq_workers WHERE queue = $1::int
