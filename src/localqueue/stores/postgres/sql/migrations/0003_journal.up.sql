-- What the journal's triggers run. Each gathers the entries of one statement; the transaction gets their numbers for
-- all of them when it commits. They run inside functions that turn off what is no lookup by index, and join the rows of
-- a statement, which have none.

-- The numbers come from one row for each namespace, so commits that journal wait for each other there: the order of the
-- numbers is the order of the commits, there are no gaps, and nobody who reads number n can find a lower one later.
-- That row is the last thing a transaction waits for, so it can not be part of a deadlock.
CREATE FUNCTION localqueue.lq_journal_commit() RETURNS trigger LANGUAGE plpgsql
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

CREATE CONSTRAINT TRIGGER lq_journal_numbers AFTER INSERT ON localqueue.lq_journal_new
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.type = 0) EXECUTE FUNCTION localqueue.lq_journal_commit();

CREATE FUNCTION localqueue.lq_journal_mark() RETURNS void LANGUAGE sql AS $$
  INSERT INTO localqueue.lq_journal_new (namespace, queue, at, key, type) VALUES (0, 0, 0, 0, 0)
$$;

CREATE FUNCTION localqueue.lq_journal_put() RETURNS trigger LANGUAGE plpgsql
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

-- A message that left delivery although its history says something else is one whose lease expired once too often, or
-- that was released, or freed by its upstream, after its time to live.
CREATE FUNCTION localqueue.lq_journal_changed() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_hashjoin = on SET enable_sort = on AS $$
BEGIN
  INSERT INTO localqueue.lq_journal_new (namespace, queue, at, key, attempt, type, worker, error)
  SELECT j.namespace, e.queue, e.at, e.key, e.attempts, e.type, e.worker, e.error
    FROM (SELECT m.queue, m.key, m.attempts, m.priority, m.available_at,
                 CASE WHEN m.state = 2 AND o.state <> 2 THEN 2
                      WHEN m.state = 2 AND m.renewals <> o.renewals THEN 3
                      WHEN m.state = 5 AND o.state < 5 THEN 6
                      WHEN m.state = 6 AND o.state < 5 THEN 7
                      WHEN m.state = 7 AND o.state < 5 THEN 9 END AS type,
                 CASE WHEN m.state = 2 AND o.state <> 2 THEN m.leased_at
                      WHEN m.state = 2 THEN localqueue.lq_now() ELSE m.ended_at END AS at,
                 CASE WHEN m.state = 2 THEN m.leased_by END AS worker,
                 CASE WHEN m.state = 5 THEN m.last_error END AS error,
                 m.state, m.history
            FROM new_rows AS m JOIN old_rows AS o ON o.key = m.key) AS e
    JOIN localqueue.lq_queues AS q ON q.id = e.queue
    JOIN localqueue.lq_journals AS j ON j.namespace = q.namespace AND j.enabled
   WHERE e.type IS NOT NULL
     AND (e.state = 2 OR NOT EXISTS (
       SELECT 1 FROM localqueue.lq_attempts AS a WHERE a.message = e.key AND a.n = e.history
          AND a.event = CASE e.state WHEN 5 THEN 'dead_lettered' WHEN 6 THEN 'expired' ELSE 'cancelled' END))
   ORDER BY e.priority DESC, e.available_at, e.key;
  IF FOUND THEN
    PERFORM localqueue.lq_journal_mark();
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION localqueue.lq_journal_gone() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_hashjoin = on SET enable_sort = on AS $$
BEGIN
  INSERT INTO localqueue.lq_journal_new (namespace, queue, at, key, attempt, type, worker)
  SELECT j.namespace, m.queue, localqueue.lq_now(), m.key, m.attempts,
         coalesce((SELECT r.why FROM localqueue.lq_removed AS r WHERE r.key = m.key), 4), m.leased_by
    FROM old_rows AS m JOIN localqueue.lq_queues AS q ON q.id = m.queue
    JOIN localqueue.lq_journals AS j ON j.namespace = q.namespace AND j.enabled
   ORDER BY m.key;
  IF FOUND THEN
    PERFORM localqueue.lq_journal_mark();
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION localqueue.lq_journal_attempt() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_hashjoin = on SET enable_sort = on AS $$
BEGIN
  INSERT INTO localqueue.lq_journal_new (namespace, queue, at, key, attempt, type, worker, error)
  SELECT j.namespace, m.queue, a.at, a.message, a.attempt,
         CASE a.event WHEN 'released' THEN 5 WHEN 'dead_lettered' THEN 6 WHEN 'expired' THEN 7
                      WHEN 'lease_expired' THEN 8 WHEN 'cancelled' THEN 9 WHEN 'requeued' THEN 10 END,
         a.leased_by, a.error
    FROM new_rows AS a JOIN localqueue.lq_messages AS m ON m.key = a.message
    JOIN localqueue.lq_queues AS q ON q.id = m.queue
    JOIN localqueue.lq_journals AS j ON j.namespace = q.namespace AND j.enabled
   ORDER BY a.message, a.n;
  IF FOUND THEN
    PERFORM localqueue.lq_journal_mark();
  END IF;
  RETURN NULL;
END $$;
