INSERT INTO localqueue.lq_attempts (message, n, attempt, event, at, leased_at, leased_by, error)
SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::float8[], $6::float8[], $7::bytea[], $8::text[])
