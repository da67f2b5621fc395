SELECT d.upstream, d.dependent
  FROM localqueue.lq_dependencies AS d JOIN localqueue.lq_messages AS m ON m.key = d.dependent
  JOIN localqueue.lq_queues AS q ON q.id = m.queue
 WHERE q.namespace = $1::int AND (d.upstream, d.dependent) > ($2::bigint, $3::bigint)
 ORDER BY d.upstream, d.dependent LIMIT $4::int
