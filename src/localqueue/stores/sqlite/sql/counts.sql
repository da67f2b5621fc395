-- The next timer of a queue and its messages by state, in the order of the states.
SELECT head.until, tail.count - head.count, q.delayed,
       (SELECT count(*) FROM lq_line AS l WHERE l.queue = q.id AND l.part = 1), q.waiting, q.blocked, q.dead, q.expired,
       q.cancelled
  FROM lq_queues AS q
  JOIN lq_line AS head ON head.queue = q.id AND head.part = 0
  JOIN lq_line AS tail ON tail.queue = q.id AND tail.part = 3
 WHERE q.id = ?
