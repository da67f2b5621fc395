-- When the first of those became available that are due but that nobody has claimed since.
SELECT (SELECT min(due_at) FROM lq_messages
         WHERE queue = ?1 AND due_at <= ?2 AND state = 1 AND (expires_at IS NULL OR expires_at > ?2)),
       (SELECT min(until) FROM lq_line WHERE queue = ?1 AND part = 1 AND until <= ?2)
