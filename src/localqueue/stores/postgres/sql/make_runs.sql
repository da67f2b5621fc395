INSERT INTO localqueue.lq_runs AS r (namespace, name, touched_at)
SELECT $1::int, n.name, coalesce($3::float8, extract(epoch FROM clock_timestamp())::float8)
  FROM unnest($2::bytea[]) AS n (name)
ON CONFLICT (namespace, sha256(name)) DO NOTHING
RETURNING r.name, r.id, false
