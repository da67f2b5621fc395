-- Those of the messages that are not acked yet, each marked as one that others wait for.
WITH held AS MATERIALIZED (
  SELECT m.key FROM localqueue.lq_messages AS m WHERE m.key = ANY ($1::bigint[]) ORDER BY m.key FOR UPDATE
)
UPDATE localqueue.lq_messages AS m SET dependents = true FROM held WHERE m.key = held.key
RETURNING m.key, m.queue
