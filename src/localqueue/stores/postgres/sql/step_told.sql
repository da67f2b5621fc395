-- A worker's step (`step.sql`) that tells those who wait for its records: once, where the step was done, and also where
-- it claimed nothing. The condition is not about a row, so it is looked at before any of them.
WITH step AS MATERIALIZED (
  SELECT * FROM localqueue.lq_step($1::bigint[], $2::int[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[],
                                   $7::bigint[], $8::float8, $9::int, $10::int, $11::float8, $12::bytea, $13::int,
                                   $14::bool, $15::bool, $16::int, $17::bytea, $18::bytea, $19::text, $20::text)
), told AS MATERIALIZED (
  SELECT count(pg_notify($21::text, $22::text)) AS times
    FROM (SELECT bool_or(o_key IS NULL) AS undone FROM step) AS found WHERE undone IS NOT TRUE
)
SELECT * FROM step WHERE (SELECT times FROM told) >= 0
