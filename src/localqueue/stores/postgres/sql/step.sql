SELECT * FROM localqueue.lq_step($1::bigint[], $2::int[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[],
                                 $7::bigint[], $8::float8, $9::int, $10::int, $11::float8, $12::bytea, $13::int,
                                 $14::bool, $15::bool, $16::int, $17::bytea, $18::bytea, $19::text, $20::text)
