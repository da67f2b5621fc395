-- Runs by name. Nobody forgets them until this transaction is done, but others may count what was done in them.
SELECT r.name, r.id, r.cancelled_at IS NOT NULL FROM localqueue.lq_runs AS r
 WHERE r.namespace = $1::int AND sha256(r.name) = ANY (ARRAY(SELECT sha256(n.name) FROM unnest($2::bytea[]) AS n (name)))
   FOR KEY SHARE
