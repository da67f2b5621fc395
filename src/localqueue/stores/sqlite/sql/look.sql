-- Ready and blocked messages, next timer, and since when the queue or the worker ?2 is paused.
SELECT tail.count - head.count, q.blocked, head.until,
       coalesce(head.since, iif(head.most IS NULL, NULL, (SELECT paused_at FROM lq_workers WHERE queue = ?1 AND worker = ?2)))
  FROM lq_queues AS q
  JOIN lq_line AS head ON head.queue = q.id AND head.part = 0
  JOIN lq_line AS tail ON tail.queue = q.id AND tail.part = 3
 WHERE q.id = ?1
