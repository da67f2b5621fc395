-- A message as the engine knows it, with the lease it may have.
SELECT m.key, m.queue, m.state, m.priority, m.created_at, coalesce(m.available_at, m.created_at), m.attempts, m.expires_at,
       m.ended_at, m.forgiven, m.waiting_on, m.dependents, m.history, m.run, m.ordering_key, m.dedupe_key, m.last_error,
       m.failed_at, l.count, l.until, l.since, l.by, l.most
  FROM lq_messages AS m
  LEFT JOIN lq_line AS l ON l.queue = m.queue AND l.part = 1 AND l.rank = 0 AND l.position = 0 AND l.key = m.key
