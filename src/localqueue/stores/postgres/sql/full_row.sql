SELECT m.key, q.name, m.state, m.payload, m.is_text, m.codec, m.priority, m.attempts, m.created_at, m.available_at,
       m.leased_until, m.leased_by, m.last_error, m.failed_at, m.dedupe_key, m.ordering_key, m.expires_at,
       (SELECT r.name FROM localqueue.lq_runs AS r WHERE r.id = m.run), m.headers, m.waiting_on, m.leased_at,
       m.forgiven, CASE WHEN m.history > 0 THEN localqueue.lq_history(m.key) END
  FROM localqueue.lq_messages AS m JOIN localqueue.lq_queues AS q ON q.id = m.queue
