-- A message was acked: those that came after it wait for one less. Where it was the last, and neither an ordering key
-- nor a time to live has a say in it, the message lands where its delay puts it.
WITH freed AS (
  DELETE FROM localqueue.lq_dependencies WHERE upstream = $1::bigint RETURNING dependent
), held AS MATERIALIZED (
  SELECT m.key FROM localqueue.lq_messages AS m WHERE m.key = ANY (ARRAY(SELECT dependent FROM freed))
   ORDER BY m.key FOR UPDATE
)
UPDATE localqueue.lq_messages AS m
   SET waiting_on = m.waiting_on - 1,
       state = CASE WHEN m.waiting_on <> 1 OR m.state <> 3 OR m.ordering_key IS NOT NULL OR m.expires_at IS NOT NULL
                    THEN m.state WHEN m.available_at > $2::float8 THEN 1 ELSE 0 END,
       available_at = CASE WHEN m.waiting_on <> 1 OR m.state <> 3 OR m.ordering_key IS NOT NULL
                             OR m.expires_at IS NOT NULL
                           THEN m.available_at ELSE greatest(m.available_at, $2::float8) END,
       due_at = CASE WHEN m.waiting_on <> 1 OR m.state <> 3 OR m.ordering_key IS NOT NULL OR m.expires_at IS NOT NULL
                     THEN m.due_at WHEN m.available_at > $2::float8 THEN m.available_at END
  FROM held WHERE m.key = held.key
RETURNING m.key, m.queue, m.run, m.state, m.waiting_on
