-- The functions of 0003 that 0004 replaces, and puts back on the way down.

-- The numbers come from one row for each namespace, so commits that journal wait for each other there: the order of the
-- numbers is the order of the commits, there are no gaps, and nobody who reads number n can find a lower one later.
-- That row is the last thing a transaction waits for, so it can not be part of a deadlock.
CREATE OR REPLACE FUNCTION localqueue.lq_journal_commit() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
DECLARE
  v_namespace int;
  v_count bigint;
  v_last bigint;
  v_at float8;
  v_keep_seconds float8;
  v_keep_events bigint;
BEGIN
  FOR v_namespace, v_count, v_at IN
    SELECT n.namespace, count(*), max(n.at) FROM localqueue.lq_journal_new AS n
     WHERE n.xid = pg_current_xact_id() AND n.type > 0 GROUP BY n.namespace ORDER BY n.namespace
  LOOP
    UPDATE localqueue.lq_journals AS j SET last = j.last + v_count WHERE j.namespace = v_namespace
    RETURNING j.last, j.keep_seconds, j.keep_events INTO v_last, v_keep_seconds, v_keep_events;
    INSERT INTO localqueue.lq_journal
      (namespace, queue, seq, at, key, attempt, type, is_text, worker, error, payload, codec)
    SELECT n.namespace, n.queue, v_last - v_count + row_number() OVER (ORDER BY n.n), n.at, n.key, n.attempt, n.type,
           n.is_text, n.worker, n.error, n.payload, n.codec
      FROM localqueue.lq_journal_new AS n
     WHERE n.xid = pg_current_xact_id() AND n.namespace = v_namespace AND n.type > 0;
    IF v_last / 64 <> (v_last - v_count) / 64 AND coalesce(v_keep_seconds, v_keep_events) IS NOT NULL THEN
      -- Retention: every 64 entries look at twice as many of the oldest as have come.
      DELETE FROM localqueue.lq_journal AS j
       WHERE j.namespace = v_namespace
         AND j.seq IN (SELECT o.seq FROM localqueue.lq_journal AS o WHERE o.namespace = v_namespace
                        ORDER BY o.seq LIMIT greatest(128, 2 * v_count))
         AND (j.seq <= v_last - v_keep_events OR j.at < v_at - v_keep_seconds);
    END IF;
  END LOOP;
  DELETE FROM localqueue.lq_journal_new AS n WHERE n.xid = pg_current_xact_id();
  RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION localqueue.lq_journal_put() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_hashjoin = on SET enable_sort = on AS $$
-- A message with a past came now, whenever it was created.
DECLARE
  v_now float8 := nullif(current_setting('localqueue.now', true), '');
BEGIN
  INSERT INTO localqueue.lq_journal_new (namespace, queue, at, key, attempt, type, is_text, payload, codec, error)
  SELECT e.namespace, e.queue, e.at, e.key, e.attempt, e.type, e.is_text, e.payload, e.codec, e.error
    FROM (SELECT j.namespace, m.queue, coalesce(v_now, m.created_at) AS at, m.key, NULL::int AS attempt, 1 AS type,
                 m.is_text, m.payload, m.codec, NULL AS error
            FROM new_rows AS m JOIN localqueue.lq_queues AS q ON q.id = m.queue
            JOIN localqueue.lq_journals AS j ON j.namespace = q.namespace AND j.enabled
          UNION ALL
          SELECT j.namespace, m.queue, coalesce(v_now, m.ended_at), m.key, m.attempts,
                 CASE m.state WHEN 5 THEN 6 WHEN 6 THEN 7 ELSE 9 END, NULL, NULL, NULL,
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
