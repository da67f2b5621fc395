SELECT key, why FROM localqueue.lq_removed WHERE namespace = $1::int AND key > $2::bigint ORDER BY key LIMIT $3::int
