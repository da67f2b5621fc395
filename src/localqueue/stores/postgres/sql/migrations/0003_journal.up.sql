-- What the journal's triggers run. Each gathers the entries of one statement; the transaction gets their numbers for
-- all of them when it commits. They run inside functions that turn off what is no lookup by index, and join the rows of
-- a statement, which have none.

\i 0003_functions.sql

CREATE CONSTRAINT TRIGGER lq_journal_numbers AFTER INSERT ON localqueue.lq_journal_new
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.type = 0) EXECUTE FUNCTION localqueue.lq_journal_commit();

CREATE FUNCTION localqueue.lq_journal_mark() RETURNS void LANGUAGE sql AS $$
  INSERT INTO localqueue.lq_journal_new (namespace, queue, at, key, type) VALUES (0, 0, 0, 0, 0)
$$;

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
