-- By how much the ready and blocked messages of a queue are more than their rows say, once its timers are settled.
SELECT coalesce(sum(
         CASE WHEN state = 2 AND attempts - forgiven >= most THEN 0
              WHEN expires_at <= $2::float8 THEN CASE WHEN state IN (0, 4) THEN -1 ELSE 0 END
              WHEN state IN (1, 2) THEN 1 ELSE 0 END), 0)::bigint
  FROM localqueue.lq_messages WHERE queue = $1::int AND due_at <= $2::float8
