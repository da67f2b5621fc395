SELECT key FROM localqueue.lq_messages
 WHERE queue = $1::int AND ordering_key IS NOT NULL AND ended_at IS NULL AND state = 4 ORDER BY key LIMIT 1
