SELECT key FROM localqueue.lq_messages WHERE run = $1::int AND state < 5 AND key < $2::bigint ORDER BY key DESC LIMIT $3
