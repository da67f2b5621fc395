-- Messages with nothing to look up. Where each lands follows from its delay and its time to live.
WITH at AS MATERIALIZED (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now),
put AS (
  INSERT INTO localqueue.lq_messages
    (key, queue, state, priority, created_at, available_at, payload, is_text, codec, headers, expires_at, due_at, ended_at)
  SELECT n.key, n.queue, n.state, n.priority, at.now, at.now + n.delay, n.payload, n.is_text, n.codec, n.headers,
         at.now + n.ttl,
         CASE n.state WHEN 0 THEN at.now + n.ttl WHEN 1 THEN at.now + least(n.delay, n.ttl) END,
         CASE n.state WHEN 6 THEN at.now END
    FROM at, unnest($2::bigint[], $3::int[], $4::smallint[], $5::bigint[], $6::float8[], $7::bytea[], $8::bool[],
                    $9::text[], $10::bytea[], $11::float8[])
      AS n (key, queue, state, priority, delay, payload, is_text, codec, headers, ttl)
   ORDER BY n.key
  RETURNING 1
)
SELECT at.now, (SELECT count(*) FROM put), pg_notify($12, $13) FROM at
