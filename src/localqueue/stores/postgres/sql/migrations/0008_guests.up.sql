\i 0002_functions.up.sql

CREATE OR REPLACE FUNCTION localqueue.lq_key(k bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN octet_length(k) <= 200 THEN k ELSE substring(k FROM 1 FOR 200) || sha256(k) END;

-- Runs when a user commits, whatever search_path the session has.
ALTER FUNCTION localqueue.lq_journal_commit SET search_path = pg_catalog, pg_temp;

-- The beginning of a transaction of several statements. First come the locks of what is put (see locks.py), for which
-- it may wait as long as p_timeout, then those of its queues, always in the same order; then it is told the time, which
-- is later than that of whatever was committed there before. Who holds a queue waits for nobody longer than p_patience.
-- The names of all that follows are looked for in pg_catalog: until the transaction ends, or sets it back.
CREATE FUNCTION localqueue.lq_begin(
  p_now float8, p_locks int[], p_shared bool[], p_queues int[], p_timeout text, p_patience text
) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  v_queue int;
  v_now double precision;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  PERFORM set_config('lock_timeout', p_timeout, true);
  FOR i IN 1 .. cardinality(p_locks) LOOP
    IF p_shared[i] THEN
      PERFORM pg_advisory_xact_lock_shared(1819373160, p_locks[i]);
    ELSE
      PERFORM pg_advisory_xact_lock(1819373160, p_locks[i]);
    END IF;
  END LOOP;
  FOREACH v_queue IN ARRAY p_queues LOOP
    PERFORM pg_advisory_xact_lock(1819373157, v_queue);
  END LOOP;
  PERFORM set_config('lock_timeout', p_patience, true);
  v_now := coalesce(p_now, extract(epoch FROM clock_timestamp())::float8);
  PERFORM set_config('localqueue.now', v_now::text, true);
  RETURN v_now;
END $$;

-- What a user's transaction has put, which is decided by what is there when it is put, without a lock that would keep
-- consumers waiting for the user. What others have done since is looked at when the user commits. One row for each put:
-- messages that have an ordering key or wait for others, what they add to runs, and how many messages queues have
-- dropped. Nothing in it outlives a transaction, so it needs no write-ahead log.
CREATE UNLOGGED TABLE localqueue.lq_guests (
  xid      xid8 NOT NULL DEFAULT pg_current_xact_id(),
  now      float8,                          -- by the clock that replaces the server's, if one does
  messages bigint[] NOT NULL,
  runs     int[] NOT NULL,
  totals   int[] NOT NULL,
  queues   int[] NOT NULL,
  dropped  int[] NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX lq_guests_xid ON localqueue.lq_guests (xid);

-- The first of the transaction's rows does it for all of them, so that all take locks in the same order: queues with
-- ordering keys, then messages that others wait for, then runs. Only the user waits for them, and those who hold them are
-- done in moments, whatever lock_timeout the session has.
CREATE FUNCTION localqueue.lq_guests_commit() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp SET lock_timeout = 0 SET jit = off SET enable_seqscan = off
SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  v_guests localqueue.lq_guests[];
  v_now float8;
  v_keys bigint[];
  v_upstreams bigint[];
  v_one record;
BEGIN
  WITH gone AS (DELETE FROM localqueue.lq_guests AS g WHERE g.xid = pg_current_xact_id() RETURNING g)
  SELECT array_agg(gone.g) INTO v_guests FROM gone;
  IF v_guests IS NULL THEN
    RETURN NULL;
  END IF;
  v_keys := ARRAY(SELECT m.key FROM unnest(v_guests) AS g CROSS JOIN LATERAL unnest(g.messages) AS m (key) ORDER BY m.key);
  FOR v_one IN
    SELECT DISTINCT m.queue FROM localqueue.lq_messages AS m
     WHERE m.key = ANY (v_keys) AND m.ordering_key IS NOT NULL ORDER BY m.queue
  LOOP
    PERFORM pg_advisory_xact_lock(1819373157, v_one.queue);
  END LOOP;
  SELECT coalesce(max(g.now), extract(epoch FROM clock_timestamp())::float8) INTO v_now FROM unnest(v_guests) AS g;

  v_upstreams := ARRAY(
    SELECT DISTINCT d.upstream FROM localqueue.lq_dependencies AS d WHERE d.dependent = ANY (v_keys) ORDER BY d.upstream);
  IF cardinality(v_upstreams) > 0 THEN
    PERFORM FROM localqueue.lq_messages AS u WHERE u.key = ANY (v_upstreams) ORDER BY u.key FOR NO KEY UPDATE;
    UPDATE localqueue.lq_messages AS u SET dependents = true WHERE u.key = ANY (v_upstreams) AND NOT u.dependents;
    -- One that is gone was acked since, unless it was removed: then the message waits on, as it does for any that is.
    WITH acked AS (
      DELETE FROM localqueue.lq_dependencies AS d
       WHERE d.dependent = ANY (v_keys)
         AND NOT EXISTS (SELECT 1 FROM localqueue.lq_messages AS u WHERE u.key = d.upstream)
         AND NOT EXISTS (SELECT 1 FROM localqueue.lq_removed AS r WHERE r.key = d.upstream)
      RETURNING d.dependent
    )
    UPDATE localqueue.lq_messages AS m
       SET waiting_on = m.waiting_on - f.count,
           state = CASE WHEN f.count < m.waiting_on THEN 3 WHEN m.ordering_key IS NOT NULL THEN 4
                        WHEN m.available_at > v_now THEN 1 ELSE 0 END,
           available_at = CASE WHEN f.count < m.waiting_on THEN m.available_at ELSE greatest(m.available_at, v_now) END,
           due_at = CASE WHEN f.count = m.waiting_on AND m.ordering_key IS NULL AND m.available_at > v_now
                         THEN least(m.available_at, m.expires_at) ELSE m.expires_at END
      FROM (SELECT a.dependent, count(*) AS count FROM acked AS a GROUP BY a.dependent) AS f
     WHERE m.key = f.dependent AND m.state = 3;
  END IF;

  -- Of an ordering key at most one message of this transaction is in front; it gives way to another's.
  UPDATE localqueue.lq_messages AS m SET state = 4, due_at = m.expires_at
   WHERE m.key = ANY (v_keys) AND m.ordering_key IS NOT NULL AND m.state <= 1
     AND EXISTS (
       SELECT 1 FROM localqueue.lq_messages AS h
        WHERE h.queue = m.queue AND localqueue.lq_key(h.ordering_key) = localqueue.lq_key(m.ordering_key)
          AND h.ordering_key IS NOT NULL AND h.ended_at IS NULL AND h.state <= 2 AND h.key <> m.key);
  -- Where nobody is in front any more, the first one takes the place.
  UPDATE localqueue.lq_messages AS m
     SET state = CASE WHEN m.available_at > v_now THEN 1 ELSE 0 END,
         due_at = CASE WHEN m.available_at > v_now THEN least(m.available_at, m.expires_at) ELSE m.expires_at END
   WHERE m.key = ANY (v_keys) AND m.ordering_key IS NOT NULL AND m.state = 4
     AND NOT EXISTS (
       SELECT 1 FROM localqueue.lq_messages AS h
        WHERE h.queue = m.queue AND localqueue.lq_key(h.ordering_key) = localqueue.lq_key(m.ordering_key)
          AND h.ordering_key IS NOT NULL AND h.ended_at IS NULL AND (h.state <= 2 OR (h.state = 4 AND h.key < m.key)));

  FOR v_one IN
    SELECT r.run, sum(r.total) AS total
      FROM unnest(v_guests) AS g CROSS JOIN LATERAL unnest(g.runs, g.totals) AS r (run, total) GROUP BY r.run ORDER BY r.run
  LOOP
    UPDATE localqueue.lq_runs AS r
       SET total = r.total + v_one.total,
           touched_at = CASE WHEN v_now > r.touched_at + 3600 THEN v_now ELSE r.touched_at END
     WHERE r.id = v_one.run;
  END LOOP;
  FOR v_one IN
    SELECT q.queue, sum(q.dropped) AS dropped
      FROM unnest(v_guests) AS g CROSS JOIN LATERAL unnest(g.queues, g.dropped) AS q (queue, dropped)
     GROUP BY q.queue ORDER BY q.queue
  LOOP
    UPDATE localqueue.lq_queues AS q SET dropped = q.dropped + v_one.dropped WHERE q.id = v_one.queue;
  END LOOP;
  RETURN NULL;
END $$;

CREATE CONSTRAINT TRIGGER lq_guests_commit AFTER INSERT ON localqueue.lq_guests
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION localqueue.lq_guests_commit();

-- Before the journal's entries get their numbers (lq_journal_numbers comes next, by its name): the row they come from is
-- the last thing that a transaction waits for.
CREATE CONSTRAINT TRIGGER lq_journal_guests AFTER INSERT ON localqueue.lq_journal_new
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.type = 0 AND current_setting('localqueue.guest', true) = 'on')
EXECUTE FUNCTION localqueue.lq_guests_commit();
