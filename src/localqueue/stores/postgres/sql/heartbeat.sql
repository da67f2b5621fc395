INSERT INTO localqueue.lq_workers AS w (queue, worker, last_seen, leases)
VALUES ($1::int, $2::bytea, coalesce($3::float8, extract(epoch FROM clock_timestamp())::float8), $4::bigint)
ON CONFLICT (queue, sha256(worker)) DO UPDATE SET last_seen = excluded.last_seen, leases = w.leases + excluded.leases
