-- Runs by name, made on first use, and locked: nobody cancels them until this transaction is done.
INSERT INTO localqueue.lq_runs AS r (namespace, name)
SELECT $1::int, n.name FROM unnest($2::bytea[]) AS n (name)
ON CONFLICT (namespace, sha256(name)) DO UPDATE SET name = r.name
RETURNING r.name, r.id, r.cancelled_at IS NOT NULL
