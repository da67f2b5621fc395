INSERT INTO lq_queues (namespace, name) VALUES (?, ?) ON CONFLICT DO UPDATE SET name = name RETURNING id
