SELECT l.rank, l.position, l.key, l.count,
       m.payload, m.codec, m.priority, m.created_at, coalesce(m.available_at, m.created_at), m.headers, m.dedupe_key,
       m.ordering_key, m.expires_at, (SELECT name FROM lq_runs WHERE id = m.run), m.last_error, m.failed_at, m.history
  FROM lq_line AS l JOIN lq_messages AS m ON m.key = l.key
 WHERE l.queue = ? AND l.part = 2
 ORDER BY l.rank, l.position, l.key
 LIMIT ?
