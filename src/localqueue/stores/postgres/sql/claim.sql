SELECT * FROM localqueue.lq_claim($1::bool, $2::float8, $3::int, $4::int, $5::float8, $6::bytea, $7::int, $8::bool,
                                  $9::bool, $10::int, $11::bytea, $12::bytea, $13::text, $14::text)
