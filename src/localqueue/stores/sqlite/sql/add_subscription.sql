INSERT INTO lq_subscriptions (topic, subscriber, n)
SELECT ?1, ?2, coalesce(max(n), 0) + 1 FROM lq_subscriptions WHERE topic = ?1
ON CONFLICT DO NOTHING
