-- What a decision needs (see `Wanted` in engine/port.py), and whether the lock of its queue, if it is none of $13, was
-- got. Locked, in the order of their keys, are messages by key ($1), the first blocked one of ordering keys ($2, $3) behind
-- a key ($4), those that wait for others ($5), and holders of dedupe keys whose time to live is over ($14). The other
-- holders, and the heads of ordering keys, are only seen: a claim would pass by what is locked. The keys of both are
-- given as indexes have them (`lq_key`), those of a queue ($6, $10) from one place to another ($7, $8 and $11, $12 of $9).
-- A row with nothing but a key has the greatest one of the messages that are blocked behind the heads.
WITH holders AS MATERIALIZED (
  SELECT held.* FROM unnest($6::int[], $7::int[], $8::int[]) AS w (queue, first, last) CROSS JOIN LATERAL (
    SELECT m.key, m.due_at <= $14::float8 AND m.expires_at <= $14::float8 AS outlived FROM localqueue.lq_messages AS m
     WHERE m.queue = w.queue AND localqueue.lq_key(m.dedupe_key) = ANY (($9::bytea[])[w.first:w.last])
       AND m.dedupe_key IS NOT NULL AND m.ended_at IS NULL OFFSET 0) AS held
), wanted AS MATERIALIZED (
  SELECT unnest($1::bigint[]) AS key
  UNION ALL
  SELECT next.key FROM unnest($2::int[], $3::bytea[], $4::bigint[]) AS w (queue, name, after) CROSS JOIN LATERAL (
    SELECT m.key FROM localqueue.lq_messages AS m
     WHERE m.queue = w.queue AND localqueue.lq_key(m.ordering_key) = localqueue.lq_key(w.name) AND m.ordering_key IS NOT NULL
       AND m.ended_at IS NULL AND m.state = 4 AND m.key > w.after ORDER BY m.key LIMIT 1) AS next
  UNION ALL
  SELECT d.dependent FROM localqueue.lq_dependencies AS d WHERE d.upstream = ANY ($5::bigint[])
  UNION ALL
  SELECT h.key FROM holders AS h WHERE h.outlived
), locked AS MATERIALIZED (
  SELECT m.key, m.queue, m.state, m.priority, m.created_at, m.available_at, m.attempts, m.expires_at, m.ended_at,
         m.leased_until, m.leased_at, m.leased_by, m.most, m.forgiven, m.waiting_on, m.dependents, m.history, m.run,
         m.ordering_key, m.dedupe_key, m.last_error, m.failed_at
    FROM localqueue.lq_messages AS m WHERE m.key = ANY (ARRAY(SELECT w.key FROM wanted AS w))
   ORDER BY m.key FOR UPDATE
), seen AS MATERIALIZED (
  SELECT h.key FROM holders AS h WHERE h.outlived IS NOT TRUE
  UNION ALL
  SELECT head.key FROM unnest($10::int[], $11::int[], $12::int[]) AS w (queue, first, last) CROSS JOIN LATERAL (
    SELECT m.key FROM localqueue.lq_messages AS m
     WHERE m.queue = w.queue AND localqueue.lq_key(m.ordering_key) = ANY (($9::bytea[])[w.first:w.last])
       AND m.ordering_key IS NOT NULL AND m.ended_at IS NULL AND m.state <= 2 OFFSET 0) AS head
)
SELECT l.*, CASE WHEN l.queue = ANY ($13::int[]) THEN true ELSE pg_try_advisory_xact_lock(1819373157, l.queue) END,
       CASE WHEN cardinality($5::bigint[]) > 0 THEN ARRAY(
         SELECT d.upstream FROM localqueue.lq_dependencies AS d
          WHERE d.dependent = l.key AND d.upstream = ANY ($5::bigint[])) END
  FROM locked AS l
UNION ALL
SELECT m.key, m.queue, m.state, m.priority, m.created_at, m.available_at, m.attempts, m.expires_at, m.ended_at,
       m.leased_until, m.leased_at, m.leased_by, m.most, m.forgiven, m.waiting_on, m.dependents, m.history, m.run,
       m.ordering_key, m.dedupe_key, m.last_error, m.failed_at, NULL, NULL
  FROM seen AS s JOIN localqueue.lq_messages AS m ON m.key = s.key
UNION ALL
SELECT max(last.key), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       NULL, NULL, NULL, NULL, NULL, NULL
  FROM unnest($10::int[], $11::int[], $12::int[]) AS w (queue, first, last)
  CROSS JOIN LATERAL unnest(($9::bytea[])[w.first:w.last]) AS k (name)
  CROSS JOIN LATERAL (
    SELECT m.key FROM localqueue.lq_messages AS m
     WHERE m.queue = w.queue AND localqueue.lq_key(m.ordering_key) = k.name AND m.ordering_key IS NOT NULL
       AND m.ended_at IS NULL AND m.state = 4 ORDER BY m.key DESC LIMIT 1) AS last
HAVING max(last.key) IS NOT NULL
