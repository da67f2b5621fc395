SELECT tail.count - head.count, q.blocked, head.until, head.since
  FROM lq_queues AS q
  JOIN lq_line AS head ON head.queue = q.id AND head.part = 0
  JOIN lq_line AS tail ON tail.queue = q.id AND tail.part = 3
 WHERE q.id = ?
