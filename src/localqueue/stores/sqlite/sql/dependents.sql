-- What comes after a message. `plain`: it waits, and nothing but other messages is in its way.
SELECT m.key, m.queue, m.waiting_on, -m.priority, m.attempts,
       m.state = 3 AND m.ordering_key IS NULL AND m.expires_at IS NULL AND coalesce(m.available_at, m.created_at) <= ?2
  FROM lq_dependencies AS d JOIN lq_messages AS m ON m.key = d.dependent
 WHERE d.upstream = ?1
 ORDER BY m.key
