INSERT INTO localqueue.lq_subscriptions (topic, subscriber, n)
SELECT $1::int, $2::bytea, coalesce(max(n), 0) + 1 FROM localqueue.lq_subscriptions WHERE topic = $1::int
ON CONFLICT DO NOTHING
