-- `lq_claim` as one statement, for a session that has been told how to plan (see connecting.py): always at least one
-- row, whose first column says that timers have to be settled first and whose key is NULL when nothing was claimed.
WITH at AS MATERIALIZED (
  SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now
), queue AS MATERIALIZED (
  SELECT q.room_wanted FROM localqueue.lq_queues AS q
   WHERE q.id = $2::int AND q.paused_at IS NULL
     AND NOT EXISTS (SELECT 1 FROM localqueue.lq_workers AS w
                      WHERE w.queue = $2::int AND sha256(w.worker) = sha256($5::bytea) AND w.paused_at IS NOT NULL)
), due AS MATERIALIZED (
  SELECT EXISTS (SELECT 1 FROM queue) AND EXISTS (
    SELECT 1 FROM localqueue.lq_messages AS m WHERE m.queue = $2::int AND m.due_at <= (SELECT at.now FROM at)
  ) AS due
), picked AS MATERIALIZED (
  SELECT m.key FROM localqueue.lq_messages AS m
   WHERE m.queue = $2::int AND m.state = 0 AND (SELECT NOT due.due FROM due, queue)
   ORDER BY m.priority DESC, m.available_at, m.key LIMIT $3::int FOR UPDATE SKIP LOCKED
), claimed AS (
  UPDATE localqueue.lq_messages AS m
     SET state = 2, attempts = m.attempts + 1, leased_at = at.now, leased_until = at.now + $4::float8,
         due_at = at.now + $4::float8, leased_by = $5::bytea, most = $6::int
    FROM at
   WHERE m.key = ANY (ARRAY(SELECT picked.key FROM picked))
  RETURNING m.key, m.payload, m.is_text, m.codec, m.priority, m.attempts, m.created_at, m.available_at, m.headers,
            m.dedupe_key, m.ordering_key, m.expires_at, m.run, m.last_error, m.failed_at, m.forgiven, m.history
)
SELECT due.due, c.key, at.now, c.payload, c.is_text, c.codec, c.priority, c.attempts, c.created_at, c.available_at,
       c.headers, c.dedupe_key, c.ordering_key, c.expires_at,
       CASE WHEN c.run IS NOT NULL THEN (SELECT r.name FROM localqueue.lq_runs AS r WHERE r.id = c.run) END,
       c.last_error, c.failed_at, c.forgiven,
       CASE WHEN c.history > 0 THEN localqueue.lq_history(c.key) END,
       CASE WHEN c.key IS NOT NULL AND (SELECT queue.room_wanted FROM queue) > at.now THEN pg_notify($7, $8)::text END
  FROM at CROSS JOIN due LEFT JOIN claimed AS c ON true
 ORDER BY c.priority DESC, c.available_at, c.key
