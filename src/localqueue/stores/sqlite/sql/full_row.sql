SELECT m.key, q.name, m.state, m.payload, m.codec, m.priority, m.attempts, m.created_at, m.available_at, m.due_at,
       m.leased_at, m.leased_by, m.last_error, m.failed_at, m.dedupe_key, m.ordering_key, m.expires_at, r.name,
       m.headers, m.waiting_on
  FROM messages AS m
  JOIN queues AS q ON q.id = m.queue
  LEFT JOIN runs AS r ON r.id = m.run
