SELECT id, name, paused_at, dropped, subscriptions FROM localqueue.lq_queues WHERE namespace = $1::int ORDER BY id
