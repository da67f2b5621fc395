-- When the first of the messages became available that nobody has claimed since their timers passed.
SELECT min(due_at) FROM localqueue.lq_messages
 WHERE queue = $1::int AND due_at <= $2::float8
   AND (state = 2 OR (state = 1 AND (expires_at IS NULL OR expires_at > $2::float8)))
