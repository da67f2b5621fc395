SELECT * FROM localqueue.lq_claim(true, $1::float8, $2::int, $3::int, $4::float8, $5::bytea, $6::int, $7::bool,
                                  $8::bool, $9::int, $10::bytea, $11::bytea, $12::text, $13::text)
