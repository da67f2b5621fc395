-- Whether each of the queues holds less than its limit, and in how many seconds the next message there expires.
SELECT coalesce(bool_and(found.load < found.maxsize), true), min(found.expiry - at.now)
  FROM (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now) AS at
  CROSS JOIN LATERAL (
    SELECT l.maxsize,
           (SELECT count(*) FROM (SELECT 1 FROM localqueue.lq_messages AS m
             WHERE m.queue = l.queue AND m.state = 0 LIMIT l.maxsize + timers.lost) AS ready)
         + (SELECT count(*) FROM (SELECT 1 FROM localqueue.lq_messages AS m
             WHERE m.queue = l.queue AND m.state = 4 AND m.ordering_key IS NOT NULL AND m.ended_at IS NULL
             LIMIT l.maxsize + timers.lost) AS blocked)
         + timers.gained - timers.lost AS load,
           (SELECT m.due_at FROM localqueue.lq_messages AS m
             WHERE m.queue = l.queue AND m.due_at > at.now AND m.state IN (0, 4) ORDER BY m.due_at LIMIT 1) AS expiry
      FROM unnest($2::int[], $3::bigint[]) AS l (queue, maxsize)
      CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE m.state IN (0, 4) AND m.expires_at <= at.now) AS lost,
               count(*) FILTER (WHERE (m.expires_at IS NULL OR m.expires_at > at.now) AND (m.state = 1
                 OR (m.state = 2 AND (m.most IS NULL OR m.attempts - m.forgiven < m.most)))) AS gained
          FROM localqueue.lq_messages AS m WHERE m.queue = l.queue AND m.due_at <= at.now) AS timers
  ) AS found
