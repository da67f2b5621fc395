-- Runs by name, made on first use, and locked: nobody cancels them until this transaction is done. Some that nobody has
-- touched for long ($4 seconds) and that have no message any more are forgotten, but for those that somebody has locked.
WITH at AS MATERIALIZED (SELECT coalesce($3::float8, extract(epoch FROM clock_timestamp())::float8) AS now),
forgotten AS (
  DELETE FROM localqueue.lq_runs WHERE id IN (
    SELECT o.id FROM localqueue.lq_runs AS o
     WHERE o.namespace = $1::int AND o.touched_at < (SELECT now FROM at) - $4::float8 AND NOT o.name = ANY ($2::bytea[])
       AND NOT EXISTS (SELECT 1 FROM localqueue.lq_messages AS m WHERE m.run = o.id)
     LIMIT 2 + 2 * cardinality($2::bytea[]) FOR UPDATE SKIP LOCKED)
)
INSERT INTO localqueue.lq_runs AS r (namespace, name, touched_at)
SELECT $1::int, n.name, at.now FROM at, unnest($2::bytea[]) AS n (name)
ON CONFLICT (namespace, sha256(name)) DO UPDATE
   SET touched_at = CASE WHEN excluded.touched_at > r.touched_at + 3600 THEN excluded.touched_at ELSE r.touched_at END
RETURNING r.name, r.id, r.cancelled_at IS NOT NULL
