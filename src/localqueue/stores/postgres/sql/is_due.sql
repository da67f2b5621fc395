-- Whether a claim found nothing because a timer has passed.
SELECT EXISTS (
    SELECT 1 FROM localqueue.lq_queues AS q WHERE q.id = $2::int AND q.paused_at IS NULL
       AND NOT EXISTS (SELECT 1 FROM localqueue.lq_workers AS w WHERE w.queue = $2::int
                          AND sha256(w.worker) = sha256($3::bytea) AND w.paused_at IS NOT NULL))
   AND EXISTS (
    SELECT 1 FROM localqueue.lq_messages AS d WHERE d.queue = $2::int
       AND d.due_at <= coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8))
