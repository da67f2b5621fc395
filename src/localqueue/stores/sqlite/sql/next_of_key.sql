SELECT key FROM lq_messages WHERE queue = ? AND ordering_key = ? AND state = 4 ORDER BY key LIMIT 1
