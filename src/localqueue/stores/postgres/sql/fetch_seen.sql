-- What `fetch.sql` finds, with no lock on anything: messages by key ($1), holders of dedupe keys ($2 to $5), heads of
-- ordering keys ($6 to $8), and in a row of its own the greatest key of the messages that are blocked behind these.
SELECT m.key, m.queue, m.state, m.priority, m.created_at, m.available_at, m.attempts, m.expires_at, m.ended_at,
       m.leased_until, m.leased_at, m.leased_by, m.most, m.forgiven, m.waiting_on, m.dependents, m.history, m.run,
       m.ordering_key, m.dedupe_key, m.last_error, m.failed_at
  FROM localqueue.lq_messages AS m
 WHERE m.key = ANY ($1::bigint[] || ARRAY(
   SELECT held.key FROM unnest($2::int[], $3::int[], $4::int[]) AS w (queue, first, last) CROSS JOIN LATERAL (
     SELECT m.key FROM localqueue.lq_messages AS m
      WHERE m.queue = w.queue AND localqueue.lq_key(m.dedupe_key) = ANY (($5::bytea[])[w.first:w.last])
        AND m.dedupe_key IS NOT NULL AND m.ended_at IS NULL OFFSET 0) AS held
   UNION ALL
   SELECT head.key FROM unnest($6::int[], $7::int[], $8::int[]) AS w (queue, first, last) CROSS JOIN LATERAL (
     SELECT m.key FROM localqueue.lq_messages AS m
      WHERE m.queue = w.queue AND localqueue.lq_key(m.ordering_key) = ANY (($5::bytea[])[w.first:w.last])
        AND m.ordering_key IS NOT NULL AND m.ended_at IS NULL AND m.state <= 2 OFFSET 0) AS head))
UNION ALL
SELECT max(last.key), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL
  FROM unnest($6::int[], $7::int[], $8::int[]) AS w (queue, first, last)
  CROSS JOIN LATERAL unnest(($5::bytea[])[w.first:w.last]) AS k (name)
  CROSS JOIN LATERAL (
    SELECT m.key FROM localqueue.lq_messages AS m
     WHERE m.queue = w.queue AND localqueue.lq_key(m.ordering_key) = k.name AND m.ordering_key IS NOT NULL
       AND m.ended_at IS NULL AND m.state = 4 ORDER BY m.key DESC LIMIT 1) AS last
HAVING max(last.key) IS NOT NULL
