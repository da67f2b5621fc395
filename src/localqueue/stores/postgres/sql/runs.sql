SELECT name FROM localqueue.lq_runs WHERE namespace = $1::int AND name > $2::bytea ORDER BY name LIMIT $3::bigint
