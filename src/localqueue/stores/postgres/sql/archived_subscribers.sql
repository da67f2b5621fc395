SELECT s.topic, s.subscriber FROM localqueue.lq_subscriptions AS s JOIN localqueue.lq_queues AS q ON q.id = s.topic
 WHERE q.namespace = $1::int ORDER BY s.topic, s.n
