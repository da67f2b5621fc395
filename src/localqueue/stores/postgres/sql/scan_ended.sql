WHERE m.queue = $1::int AND m.state = $4::int AND m.ended_at IS NOT NULL
  AND (m.ended_at, m.key) > (CASE WHEN $2::bigint IS NULL THEN '-infinity'::float8 ELSE
        (SELECT a.ended_at FROM localqueue.lq_messages AS a WHERE a.key = $2::bigint) END, coalesce($2::bigint, 0))
ORDER BY m.ended_at, m.key LIMIT $3::bigint
