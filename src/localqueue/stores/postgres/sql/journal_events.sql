SELECT e.seq, e.at, e.type, q.name, e.key, e.attempt, e.worker, e.error, e.payload, e.is_text, e.codec, e.options
  FROM localqueue.lq_journal AS e JOIN localqueue.lq_queues AS q ON q.id = e.queue
 WHERE e.namespace = $1::int AND e.seq > $2::bigint
 ORDER BY e.seq
 LIMIT $3::bigint
