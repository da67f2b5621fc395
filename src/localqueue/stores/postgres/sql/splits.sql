-- The keys at these fractions of a queue's messages, and the newest: each state from an index of its own.
SELECT percentile_disc($2::float8[]) WITHIN GROUP (ORDER BY key), max(key) FROM (
  SELECT key FROM localqueue.lq_messages WHERE queue = $1::int AND state = 0
  UNION ALL
  SELECT key FROM localqueue.lq_messages WHERE queue = $1::int AND due_at IS NOT NULL AND state IN (1, 2)
  UNION ALL
  SELECT key FROM localqueue.lq_messages WHERE queue = $1::int AND state = 3
  UNION ALL
  SELECT key FROM localqueue.lq_messages
   WHERE queue = $1::int AND state = 4 AND ordering_key IS NOT NULL AND ended_at IS NULL
  UNION ALL
  SELECT key FROM localqueue.lq_messages WHERE queue = $1::int AND ended_at IS NOT NULL
) AS of_the_queue
