WITH at AS MATERIALIZED (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now),
put AS (
  INSERT INTO localqueue.lq_messages (key, queue, state, created_at, available_at, payload, is_text, codec)
  SELECT n.key, $2::int, 0, at.now, at.now, n.payload, n.is_text, $3::text
    FROM at, unnest($4::bigint[], $5::bytea[], $6::bool[]) AS n (key, payload, is_text)
  RETURNING 1
)
SELECT at.now, (SELECT count(*) FROM put), pg_notify($7, $8) FROM at
