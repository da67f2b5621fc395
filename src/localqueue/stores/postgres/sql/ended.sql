SELECT key FROM localqueue.lq_messages
 WHERE queue = $1::int AND state = $2::int AND ended_at <= $3::float8 AND (ended_at, key) > ($4::float8, $5::bigint)
 ORDER BY ended_at, key LIMIT $6
