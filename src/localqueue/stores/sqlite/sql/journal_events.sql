SELECT e.id, e.at, e.type, q.name, e.key, e.attempt, e.worker, e.error, e.payload, e.codec, e.options
  FROM lq_journal AS e CROSS JOIN lq_queues AS q ON q.id = e.queue
 WHERE e.id > ?1 AND e.id < ?2 AND (?3 IS NULL OR e.queue = ?3)
 ORDER BY e.id
 LIMIT ?4
