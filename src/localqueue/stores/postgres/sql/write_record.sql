SELECT localqueue.lq_write_record($1::int, $2::bytea, $3::bytea, $4::bytea, $5::bigint, $6::bigint, $7::float8)
