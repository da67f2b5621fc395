-- Options of an enqueued message that were not left at their defaults, as JSON in which texts are the hex of their UTF-8.
-- Entries from before have none.

ALTER TABLE localqueue.lq_journal ADD COLUMN options text;
ALTER TABLE localqueue.lq_journal_new ADD COLUMN options text;

\i 0004_journal_commit.sql

CREATE OR REPLACE FUNCTION localqueue.lq_journal_put() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_hashjoin = on SET enable_sort = on AS $$
-- A message with a past came now, whenever it was created.
DECLARE
  v_now float8 := nullif(current_setting('localqueue.now', true), '');
BEGIN
  INSERT INTO localqueue.lq_journal_new (namespace, queue, at, key, attempt, type, is_text, payload, codec, options, error)
  SELECT e.namespace, e.queue, e.at, e.key, e.attempt, e.type, e.is_text, e.payload, e.codec, e.options, e.error
    FROM (SELECT j.namespace, m.queue, coalesce(v_now, m.created_at) AS at, m.key, NULL::int AS attempt, 1 AS type,
                 m.is_text, m.payload, m.codec,
                 CASE WHEN m.priority <> 0 OR m.headers IS NOT NULL OR m.expires_at IS NOT NULL OR m.run IS NOT NULL
                        OR m.dedupe_key IS NOT NULL OR m.ordering_key IS NOT NULL
                        OR m.available_at > coalesce(v_now, m.created_at)
                 THEN json_strip_nulls(json_build_object(
                   'priority', nullif(m.priority, 0),
                   'dedupe_key', encode(m.dedupe_key, 'hex'),
                   'ordering_key', encode(m.ordering_key, 'hex'),
                   'run_id', (SELECT encode(r.name, 'hex') FROM localqueue.lq_runs AS r WHERE r.id = m.run),
                   'headers', encode(m.headers, 'hex'),
                   'delay', nullif(greatest(m.available_at - coalesce(v_now, m.created_at), 0), 0),
                   'ttl', m.expires_at - coalesce(v_now, m.created_at)))::text END AS options, NULL AS error
            FROM new_rows AS m JOIN localqueue.lq_queues AS q ON q.id = m.queue
            JOIN localqueue.lq_journals AS j ON j.namespace = q.namespace AND j.enabled
          UNION ALL
          SELECT j.namespace, m.queue, coalesce(v_now, m.ended_at), m.key, m.attempts,
                 CASE m.state WHEN 5 THEN 6 WHEN 6 THEN 7 ELSE 9 END, NULL, NULL, NULL, NULL,
                 CASE m.state WHEN 5 THEN m.last_error END
            FROM new_rows AS m JOIN localqueue.lq_queues AS q ON q.id = m.queue
            JOIN localqueue.lq_journals AS j ON j.namespace = q.namespace AND j.enabled
           WHERE m.state >= 5) AS e
   ORDER BY e.key, e.type;
  IF FOUND THEN
    PERFORM localqueue.lq_journal_mark();
  END IF;
  RETURN NULL;
END $$;
