INSERT INTO localqueue.lq_messages (key, queue, state, created_at, available_at, payload, is_text, codec)
SELECT $2::bigint, $3::int, 0, at.now, at.now, $4::bytea, $5::bool, $6::text
  FROM (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now OFFSET 0) AS at
RETURNING created_at, pg_notify($7, $8)
