-- Ready messages, and with $3 blocked ones too, after the timers that have passed.
SELECT (SELECT count(*) FROM localqueue.lq_messages WHERE queue = $1::int AND state = 0)
     + CASE WHEN $3::bool THEN (SELECT count(*) FROM localqueue.lq_messages
          WHERE queue = $1::int AND state = 4 AND ordering_key IS NOT NULL AND ended_at IS NULL) ELSE 0 END
     + (SELECT coalesce(sum(
           CASE WHEN state = 2 AND attempts - forgiven >= most THEN 0
                WHEN expires_at <= at.now THEN CASE WHEN state = 0 OR ($3::bool AND state = 4) THEN -1 ELSE 0 END
                WHEN state IN (1, 2) THEN 1 ELSE 0 END), 0)::bigint
          FROM localqueue.lq_messages WHERE queue = $1::int AND due_at <= at.now)
  FROM (SELECT coalesce($2::float8, extract(epoch FROM clock_timestamp())::float8) AS now) AS at
