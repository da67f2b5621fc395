-- Ready messages, and with $3 blocked ones too, as they will be once the timers that have passed are settled, counted no
-- further than to $4; and with $5, in how many seconds the next of them expires.
WITH at AS MATERIALIZED (SELECT coalesce($2::float8, extract(epoch FROM clock_timestamp())::float8) AS now),
timers AS MATERIALIZED (
  SELECT coalesce(sum(
           CASE WHEN m.state = 2 AND m.attempts - m.forgiven >= m.most THEN 0
                WHEN m.expires_at <= at.now THEN CASE WHEN m.state = 0 OR ($3::bool AND m.state = 4) THEN -1 ELSE 0 END
                WHEN m.state IN (1, 2) THEN 1 ELSE 0 END), 0)::bigint AS gained
    FROM at, localqueue.lq_messages AS m WHERE m.queue = $1::int AND m.due_at <= at.now
)
SELECT (SELECT gained FROM timers) + count(*),
       CASE WHEN $5::bool THEN (
         SELECT m.due_at - at.now FROM at, localqueue.lq_messages AS m
          WHERE m.queue = $1::int AND m.due_at > at.now AND m.state IN (0, 4) ORDER BY m.due_at LIMIT 1) END
  FROM (
    (SELECT 1 FROM localqueue.lq_messages WHERE queue = $1::int AND state = 0
      LIMIT greatest($4::bigint - (SELECT gained FROM timers), 0))
    UNION ALL
    (SELECT 1 FROM localqueue.lq_messages
      WHERE $3::bool AND queue = $1::int AND state = 4 AND ordering_key IS NOT NULL AND ended_at IS NULL
      LIMIT greatest($4::bigint - (SELECT gained FROM timers), 0))
  ) AS counted
