WHERE m.queue = $1::int AND ($4::int IS NULL OR m.state = $4::int)
  AND m.key > coalesce($2::bigint, 0) AND m.key <= coalesce($5::bigint, 9223372036854775807)
ORDER BY m.key LIMIT $3::bigint
