SELECT m.key, m.queue, m.state, m.priority, m.attempts, coalesce(m.available_at, m.created_at), m.expires_at, m.forgiven,
       m.history, m.dependents, m.waiting_on, m.run, m.ordering_key, m.dedupe_key, m.last_error,
       l.count, l.until, l.since, l.by, l.most
  FROM lq_messages AS m
  LEFT JOIN lq_line AS l ON l.queue = m.queue AND l.part = 1 AND l.rank = 0 AND l.position = 0 AND l.key = m.key
 WHERE m.key = ?
