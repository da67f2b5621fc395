SELECT q.subscriptions, s.subscriber
  FROM localqueue.lq_queues AS q LEFT JOIN localqueue.lq_subscriptions AS s ON s.topic = q.id
 WHERE q.id = $1::int ORDER BY s.n
