WHERE m.run = (SELECT r.id FROM localqueue.lq_runs AS r WHERE r.namespace = $1::int AND sha256(r.name) = sha256($2::bytea))
  AND m.key > $3::bigint ORDER BY m.key LIMIT $4::bigint
