SELECT count(*) FROM localqueue.lq_messages
 WHERE queue = $1::int AND state = $2::int AND ended_at IS NOT NULL
   AND ended_at <= coalesce($3::float8, extract(epoch FROM clock_timestamp())::float8) - $4::float8
