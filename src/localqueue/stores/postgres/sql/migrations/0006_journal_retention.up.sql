-- Retention by the rule of `localqueue.stores.retention`.

CREATE OR REPLACE FUNCTION localqueue.lq_journal_commit() RETURNS trigger LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off AS $$
DECLARE
  v_namespace int;
  v_count bigint;
  v_last bigint;
  v_at float8;
  v_keep_seconds float8;
  v_keep_events bigint;
  v_since float8;
BEGIN
  FOR v_namespace, v_count, v_at IN
    SELECT n.namespace, count(*), max(n.at) FROM localqueue.lq_journal_new AS n
     WHERE n.xid = pg_current_xact_id() AND n.type > 0 GROUP BY n.namespace ORDER BY n.namespace
  LOOP
    UPDATE localqueue.lq_journals AS j SET last = j.last + v_count WHERE j.namespace = v_namespace
    RETURNING j.last, j.keep_seconds, j.keep_events INTO v_last, v_keep_seconds, v_keep_events;
    INSERT INTO localqueue.lq_journal
      (namespace, queue, seq, at, key, attempt, type, is_text, worker, error, payload, codec, options)
    SELECT n.namespace, n.queue, v_last - v_count + row_number() OVER (ORDER BY n.n), n.at, n.key, n.attempt, n.type,
           n.is_text, n.worker, n.error, n.payload, n.codec, n.options
      FROM localqueue.lq_journal_new AS n
     WHERE n.xid = pg_current_xact_id() AND n.namespace = v_namespace AND n.type > 0;
    IF v_last / 64 <> (v_last - v_count) / 64 AND coalesce(v_keep_seconds, v_keep_events) IS NOT NULL THEN
      -- Every 64 entries look at twice as many of the oldest as have come.
      v_since := NULL;
      SELECT least(v_at, e.at) - v_keep_seconds INTO v_since
        FROM localqueue.lq_journal AS e WHERE e.namespace = v_namespace AND e.seq = v_last - 64;
      DELETE FROM localqueue.lq_journal AS j
       WHERE j.namespace = v_namespace
         AND j.seq IN (SELECT o.seq FROM localqueue.lq_journal AS o WHERE o.namespace = v_namespace
                        ORDER BY o.seq LIMIT greatest(128, 2 * v_count))
         AND (j.seq <= v_last - v_keep_events OR j.at < v_since
              OR j.at > v_at AND j.seq < (
                SELECT max(m.seq) FROM localqueue.lq_journal AS m
                 WHERE m.namespace = v_namespace AND m.at < v_since
                   AND m.seq = ANY (ARRAY(SELECT v_last - (64::bigint << n) FROM generate_series(0, 20) AS n))));
    END IF;
  END LOOP;
  DELETE FROM localqueue.lq_journal_new AS n WHERE n.xid = pg_current_xact_id();
  RETURN NULL;
END $$;
