-- Whether one of the queues may have a message to lease, and in how many seconds that may change by itself.
SELECT coalesce(bool_or(found.ready OR found.due <= at.now), false), min(found.due) - min(at.now)
  FROM (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now) AS at
  CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT 1 FROM localqueue.lq_messages AS m WHERE m.queue = q.id AND m.state = 0) AS ready,
           (SELECT m.due_at FROM localqueue.lq_messages AS m
             WHERE m.queue = q.id AND m.due_at IS NOT NULL ORDER BY m.due_at LIMIT 1) AS due
      FROM localqueue.lq_queues AS q
     WHERE q.id = ANY ($2::int[]) AND q.paused_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM localqueue.lq_workers AS w
                        WHERE w.queue = q.id AND sha256(w.worker) = sha256($3::bytea) AND w.paused_at IS NOT NULL)
  ) AS found
