-- `lq_claim` as one statement, for a session that has been told how to plan (see connecting.py). It claims nothing while
-- a timer has passed; whether that is why it found nothing, `is_due.sql` says.
UPDATE localqueue.lq_messages AS m
   SET state = 2, attempts = m.attempts + 1, leased_by = $5::bytea, most = $6::int,
       leased_at = coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8),
       leased_until = coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8) + $4::float8,
       due_at = coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8) + $4::float8
 WHERE m.key = ANY (ARRAY(
   SELECT p.key FROM localqueue.lq_messages AS p
    WHERE p.queue = $2::int AND p.state = 0
      AND EXISTS (
        SELECT 1 FROM localqueue.lq_queues AS q WHERE q.id = $2::int AND q.paused_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM localqueue.lq_workers AS w WHERE w.queue = $2::int
                              AND sha256(w.worker) = sha256($5::bytea) AND w.paused_at IS NOT NULL))
      AND NOT EXISTS (
        SELECT 1 FROM localqueue.lq_messages AS d WHERE d.queue = $2::int
           AND d.due_at <= coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8))
    ORDER BY p.priority DESC, p.available_at, p.key
    LIMIT $3::int FOR UPDATE SKIP LOCKED))
RETURNING m.key, m.leased_at, m.payload, m.is_text, m.codec, m.priority, m.attempts, m.created_at, m.available_at,
          m.headers, m.dedupe_key, m.ordering_key, m.expires_at,
          CASE WHEN m.run IS NOT NULL THEN (SELECT r.name FROM localqueue.lq_runs AS r WHERE r.id = m.run) END,
          m.last_error, m.failed_at, m.forgiven, CASE WHEN m.history > 0 THEN localqueue.lq_history(m.key) END,
          CASE WHEN (SELECT q.room_wanted FROM localqueue.lq_queues AS q WHERE q.id = $2::int) > m.leased_at
               THEN pg_notify($7, $8)::text END
