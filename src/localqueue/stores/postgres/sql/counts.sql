-- Messages of a queue by state as their rows say, each from an index of its own, and then those whose timers have
-- passed, as what the next claim would make of them: (state, becomes, count).
SELECT 0, 0, count(*) FROM localqueue.lq_messages WHERE queue = $1::int AND state = 0
UNION ALL
SELECT state, state, count(*) FROM localqueue.lq_messages
 WHERE queue = $1::int AND due_at IS NOT NULL AND state IN (1, 2) GROUP BY state
UNION ALL
SELECT 3, 3, count(*) FROM localqueue.lq_messages WHERE queue = $1::int AND state = 3
UNION ALL
SELECT 4, 4, count(*) FROM localqueue.lq_messages
 WHERE queue = $1::int AND state = 4 AND ordering_key IS NOT NULL AND ended_at IS NULL
UNION ALL
SELECT state, state, count(*) FROM localqueue.lq_messages
 WHERE queue = $1::int AND ended_at IS NOT NULL GROUP BY state
UNION ALL
SELECT state,
       CASE WHEN state = 2 AND attempts - forgiven >= most THEN 15
            WHEN expires_at <= at.now THEN 16
            WHEN state IN (1, 2) THEN 10 ELSE 10 + state END,
       count(*)
  FROM localqueue.lq_messages,
       (SELECT coalesce($2::float8, extract(epoch FROM clock_timestamp())::float8) AS now) AS at
 WHERE queue = $1::int AND due_at <= at.now
 GROUP BY 1, 2
