WHERE m.key = (SELECT b.key FROM localqueue.lq_messages AS b
                WHERE b.queue = $1::int AND b.ordering_key IS NOT NULL AND b.ended_at IS NULL AND b.state = 4
                ORDER BY b.key LIMIT 1)
FOR UPDATE
