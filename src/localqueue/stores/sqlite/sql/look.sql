SELECT tail.count - head.count, q.blocked, head.until, head.since
  FROM queues AS q
  JOIN line AS head ON head.queue = q.id AND head.part = 0
  JOIN line AS tail ON tail.queue = q.id AND tail.part = 3
 WHERE q.id = ?
