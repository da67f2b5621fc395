-- Ready and blocked messages, counted no further than it matters.
SELECT count(*) FROM (
  (SELECT 1 FROM localqueue.lq_messages WHERE queue = $1::int AND state = 0 LIMIT greatest($2::bigint, 0))
  UNION ALL
  (SELECT 1 FROM localqueue.lq_messages
    WHERE queue = $1::int AND state = 4 AND ordering_key IS NOT NULL AND ended_at IS NULL
    LIMIT greatest($2::bigint, 0))
) AS counted
