-- The ready messages that became available first, whatever their priority: one seek for each priority in use.
WITH RECURSIVE level (rank) AS (
  SELECT (SELECT rank FROM lq_line WHERE queue = ?1 AND part = 2 ORDER BY rank LIMIT 1)
  UNION ALL
  SELECT (SELECT l.rank FROM lq_line AS l
           WHERE l.queue = ?1 AND l.part = 2 AND l.rank > level.rank ORDER BY l.rank LIMIT 1)
    FROM level WHERE level.rank IS NOT NULL
)
SELECT l.key, l.position
  FROM level
  JOIN lq_line AS l ON l.queue = ?1 AND l.part = 2 AND l.rank = level.rank
   AND l.key IN (SELECT key FROM lq_line
                  WHERE queue = ?1 AND part = 2 AND rank = level.rank ORDER BY position, key LIMIT ?2)
 WHERE level.rank IS NOT NULL
 ORDER BY l.position, l.key
 LIMIT ?2
