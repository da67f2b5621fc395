UPDATE localqueue.lq_queues AS q SET dropped = q.dropped + c.dropped
  FROM unnest($1::int[], $2::int[]) AS c (id, dropped) WHERE q.id = c.id
