-- The next ready message becomes a lease, unless the queue or the worker is paused, a timer has to be looked at first,
-- or the message can expire. Workers are looked up only where one was ever paused.
UPDATE lq_line
   SET part = 1, rank = 0, position = 0, count = count + 1, until = ?3, since = ?2, most = ?4, by = ?5
 WHERE queue = ?1 AND part = 2
   AND (rank, position, key) = (SELECT rank, position, key FROM lq_line WHERE queue = ?1 AND part = 2
                                 ORDER BY rank, position, key LIMIT 1)
   AND until IS NULL
   AND (SELECT since IS NULL AND until > ?2
               AND (most IS NULL OR NOT EXISTS (SELECT 1 FROM lq_workers
                                                 WHERE queue = ?1 AND worker = ?5 AND paused_at IS NOT NULL))
          FROM lq_line
         WHERE queue = ?1 AND part = 0 AND rank = 0 AND position = 0 AND key = 0)
RETURNING key, count
