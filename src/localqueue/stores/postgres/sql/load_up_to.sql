-- Ready and blocked messages, counted no further than it matters, as they will be once the timers that have passed are
-- settled.
WITH timers AS MATERIALIZED (
  SELECT coalesce(sum(
           CASE WHEN state = 2 AND attempts - forgiven >= most THEN 0
                WHEN expires_at <= $2::float8 THEN CASE WHEN state IN (0, 4) THEN -1 ELSE 0 END
                WHEN state IN (1, 2) THEN 1 ELSE 0 END), 0)::bigint AS gained
    FROM localqueue.lq_messages WHERE queue = $1::int AND due_at <= $2::float8
)
SELECT (SELECT gained FROM timers) + count(*) FROM (
  (SELECT 1 FROM localqueue.lq_messages WHERE queue = $1::int AND state = 0
    LIMIT greatest($3::bigint - (SELECT gained FROM timers), 0))
  UNION ALL
  (SELECT 1 FROM localqueue.lq_messages
    WHERE queue = $1::int AND state = 4 AND ordering_key IS NOT NULL AND ended_at IS NULL
    LIMIT greatest($3::bigint - (SELECT gained FROM timers), 0))
) AS counted
