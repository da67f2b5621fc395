SELECT id FROM localqueue.lq_queues WHERE namespace = $1::int AND sha256(name) = sha256($2::bytea)
