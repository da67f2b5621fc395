-- Delayed messages that became available within their time to live.
WITH due AS MATERIALIZED (
  SELECT m.key FROM localqueue.lq_messages AS m
   WHERE m.key = ANY ($1::bigint[]) AND m.state = 1 AND m.due_at <= $2::float8
     AND (m.expires_at IS NULL OR m.expires_at > $2::float8)
   ORDER BY m.key FOR UPDATE
)
UPDATE localqueue.lq_messages AS m SET state = 0, due_at = m.expires_at
  FROM due WHERE m.key = due.key
RETURNING m.key
