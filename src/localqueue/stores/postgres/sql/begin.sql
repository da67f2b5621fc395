SELECT localqueue.lq_begin($1::float8, $2::int[], $3::text)
