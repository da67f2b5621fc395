INSERT INTO localqueue.lq_messages
  (key, queue, state, priority, created_at, available_at, payload, is_text, codec, headers, due_at, ended_at, expires_at,
   waiting_on, dependents, run, ordering_key, dedupe_key, attempts, forgiven, history, last_error, failed_at)
SELECT * FROM unnest(
  $1::bigint[], $2::int[], $3::smallint[], $4::bigint[], $5::float8[], $6::float8[], $7::bytea[], $8::bool[], $9::text[],
  $10::bytea[], $11::float8[], $12::float8[], $13::float8[], $14::int[], $15::bool[], $16::int[], $17::bytea[],
  $18::bytea[], $19::int[], $20::int[], $21::int[], $22::text[], $23::float8[])
