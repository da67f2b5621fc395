-- A worker that comes has those forgotten that were not seen for long ($5 seconds).
WITH beat AS (
  INSERT INTO localqueue.lq_workers AS w (queue, worker, last_seen, leases)
  VALUES ($1::int, $2::bytea, coalesce($3::float8, extract(epoch FROM clock_timestamp())::float8), $4::bigint)
  ON CONFLICT (queue, sha256(worker)) DO UPDATE SET last_seen = excluded.last_seen, leases = w.leases + excluded.leases
  RETURNING last_seen
)
DELETE FROM localqueue.lq_workers AS o USING beat
 WHERE o.queue = $1::int AND o.worker <> $2::bytea AND o.last_seen < beat.last_seen - $5::float8 AND o.paused_at IS NULL
