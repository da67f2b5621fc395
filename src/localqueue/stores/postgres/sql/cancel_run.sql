UPDATE localqueue.lq_runs SET cancelled_at = coalesce(cancelled_at, $3::float8)
 WHERE namespace = $1::int AND sha256(name) = sha256($2::bytea) RETURNING id
