SELECT w.queue, w.worker, w.leases, w.last_seen, w.paused_at
  FROM localqueue.lq_workers AS w JOIN localqueue.lq_queues AS q ON q.id = w.queue
 WHERE q.namespace = $1::int ORDER BY w.queue, w.worker
