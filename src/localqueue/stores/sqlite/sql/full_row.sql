SELECT m.key, q.name, m.state, m.payload, m.codec, m.priority, m.attempts, m.created_at,
       coalesce(m.available_at, m.created_at), m.last_error, m.failed_at, m.dedupe_key, m.ordering_key, m.expires_at,
       r.name, m.headers, m.waiting_on, m.history, l.count, l.until, l.since, l.by, m.forgiven
  FROM lq_messages AS m
  JOIN lq_queues AS q ON q.id = m.queue
  LEFT JOIN lq_runs AS r ON r.id = m.run
  LEFT JOIN lq_line AS l ON l.queue = m.queue AND l.part = 1 AND l.rank = 0 AND l.position = 0 AND l.key = m.key
