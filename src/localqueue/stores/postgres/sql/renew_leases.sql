-- The time is told when the messages are held: another transaction may have held them until then.
WITH held AS MATERIALIZED (
  SELECT m.key FROM unnest($3::bigint[], $4::int[], $5::int[]) AS l (key, queue, token)
    JOIN localqueue.lq_messages AS m
      ON m.key = l.key AND m.queue = l.queue AND m.state = 2 AND m.attempts = l.token
   ORDER BY m.key FOR UPDATE OF m
), at AS MATERIALIZED (
  SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) + $2::float8 AS until,
         $1::float8 IS NULL OR set_config('localqueue.now', $1::text, true) IS NOT NULL AS told
    FROM (SELECT count(*) FROM held) AS all_of_them
), renewed AS (
  UPDATE localqueue.lq_messages AS m
     SET leased_until = at.until, due_at = at.until, renewals = m.renewals + 1
    FROM at, held WHERE m.key = held.key AND at.told
  RETURNING m.key, m.attempts
)
SELECT renewed.key, renewed.attempts, at.until FROM renewed, at
