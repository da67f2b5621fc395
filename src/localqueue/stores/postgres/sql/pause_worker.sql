INSERT INTO localqueue.lq_workers (queue, worker, paused_at) VALUES ($1::int, $2::bytea, $3::float8)
ON CONFLICT (queue, sha256(worker)) DO UPDATE SET paused_at = excluded.paused_at
