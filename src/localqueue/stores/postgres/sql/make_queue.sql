INSERT INTO localqueue.lq_queues (namespace, name) VALUES ($1::int, $2::bytea)
ON CONFLICT (namespace, sha256(name)) DO NOTHING RETURNING id
