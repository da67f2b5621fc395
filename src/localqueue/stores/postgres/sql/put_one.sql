-- One message with nothing to look up. Where it lands ($4) follows from its delay and its time to live.
INSERT INTO localqueue.lq_messages
  (key, queue, state, priority, created_at, available_at, payload, is_text, codec, headers, expires_at, due_at, ended_at)
SELECT $2::bigint, $3::int, $4::smallint, $5::bigint, at.now, at.now + $6::float8, $7::bytea, $8::bool, $9::text,
       $10::bytea, at.now + $11::float8,
       CASE $4::smallint WHEN 0 THEN at.now + $11::float8 WHEN 1 THEN at.now + least($6::float8, $11::float8) END,
       CASE $4::smallint WHEN 6 THEN at.now END
  FROM (SELECT coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8) AS now OFFSET 0) AS at
RETURNING created_at, pg_notify($12, $13)
