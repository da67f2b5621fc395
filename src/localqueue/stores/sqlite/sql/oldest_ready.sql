-- The ready message that became available first, whatever its priority: one index seek for each priority in use.
WITH RECURSIVE level (priority) AS (
  SELECT (SELECT priority FROM messages WHERE queue = ?1 AND state = 0 ORDER BY priority DESC LIMIT 1)
  UNION ALL
  SELECT (SELECT m.priority FROM messages AS m
           WHERE m.queue = ?1 AND m.state = 0 AND m.priority < level.priority ORDER BY m.priority DESC LIMIT 1)
    FROM level WHERE level.priority IS NOT NULL
)
SELECT m.key, m.available_at
  FROM level
  JOIN messages AS m ON m.key = (SELECT key FROM messages
                                  WHERE queue = ?1 AND state = 0 AND priority = level.priority
                                  ORDER BY available_at, key LIMIT 1)
 WHERE level.priority IS NOT NULL
 ORDER BY m.available_at, m.key
 LIMIT 1
