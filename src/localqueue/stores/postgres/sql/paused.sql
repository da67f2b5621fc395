SELECT q.paused_at IS NOT NULL OR EXISTS (SELECT 1 FROM localqueue.lq_workers AS w
         WHERE w.queue = q.id AND sha256(w.worker) = sha256($2::bytea) AND w.paused_at IS NOT NULL)
  FROM localqueue.lq_queues AS q WHERE q.id = $1::int
