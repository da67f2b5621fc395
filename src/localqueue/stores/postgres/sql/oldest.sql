-- The ready messages that became available first, whatever their priority: one seek for each priority in use.
WITH RECURSIVE level (priority) AS (
  (SELECT priority FROM localqueue.lq_messages WHERE queue = $1::int AND state = 0 ORDER BY priority DESC LIMIT 1)
  UNION ALL
  SELECT (SELECT m.priority FROM localqueue.lq_messages AS m
           WHERE m.queue = $1::int AND m.state = 0 AND m.priority < level.priority ORDER BY m.priority DESC LIMIT 1)
    FROM level WHERE level.priority IS NOT NULL
)
SELECT f.key, f.available_at
  FROM level CROSS JOIN LATERAL (
    SELECT m.key, m.available_at FROM localqueue.lq_messages AS m
     WHERE m.queue = $1::int AND m.state = 0 AND m.priority = level.priority
     ORDER BY m.available_at, m.key LIMIT $2::int) AS f
 WHERE level.priority IS NOT NULL
 ORDER BY f.available_at, f.key
 LIMIT $2::int
