-- What the store asks for most often, as functions: one round trip and one transaction each, with plans that are made
-- once for each session, also behind a pooler. Tables of a queue swing between empty and millions of rows faster than
-- they are analysed, so the plans are not left to statistics: everything is looked up by index.
--
-- They are called in sessions that look for names in pg_catalog first. Those that are one expression, and part of indexes and
-- defaults, were bound to it when they were made. (0008 makes all of them again, for databases that have older ones.)

CREATE OR REPLACE FUNCTION localqueue.lq_now() RETURNS float8 LANGUAGE sql VOLATILE
RETURN coalesce(nullif(current_setting('localqueue.now', true), '')::float8,
                extract(epoch FROM clock_timestamp())::float8);

-- The beginning of a transaction of several statements: its queues are locked, always in the same order, and then
-- it is told the time, which is later than that of whatever was committed there before.
CREATE OR REPLACE FUNCTION localqueue.lq_begin(p_now float8, p_queues int[], p_timeout text) RETURNS float8
LANGUAGE plpgsql AS $$
DECLARE
  v_queue int;
  v_now float8;
BEGIN
  PERFORM set_config('lock_timeout', p_timeout, true);
  FOREACH v_queue IN ARRAY p_queues LOOP
    PERFORM pg_advisory_xact_lock(1819373157, v_queue);
  END LOOP;
  v_now := coalesce(p_now, extract(epoch FROM clock_timestamp())::float8);
  PERFORM set_config('localqueue.now', v_now::text, true);
  RETURN v_now;
END $$;

CREATE OR REPLACE FUNCTION localqueue.lq_history(p_message bigint) RETURNS text LANGUAGE sql STABLE
RETURN (SELECT json_agg(json_build_array(attempt, event, at, leased_at, encode(leased_by, 'hex'), error) ORDER BY n)::text
          FROM localqueue.lq_attempts WHERE message = p_message);

-- Claims up to p_limit messages. A row with a key is a claimed message; one without says that nothing was done because
-- there is more to do first: timers have passed, or something follows from consuming these messages. As part of a step
-- (not p_alone), which has changed something by then, it raises LQ001 instead. In a transaction that has settled the
-- timers that it could (p_alone is NULL) those that are left are no reason: somebody else has locked them.
CREATE OR REPLACE FUNCTION localqueue.lq_claim(
  p_alone bool, p_now float8, p_queue int, p_limit int, p_timeout float8, p_worker bytea, p_most int, p_consume bool, p_counted bool,
  p_namespace int, p_ledger bytea, p_name bytea, p_channel text, p_token text
) RETURNS TABLE (
  o_key bigint, o_at float8, o_payload bytea, o_is_text bool, o_codec text, o_priority bigint, o_attempts int,
  o_created_at float8, o_available_at float8, o_headers bytea, o_dedupe_key bytea, o_ordering_key bytea,
  o_expires_at float8, o_run bytea, o_last_error text, o_failed_at float8, o_forgiven int, o_history text,
  o_record bytea, o_version bigint, o_updated_at float8
) LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET enable_hashjoin = off
SET enable_mergejoin = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_now float8;
  v_room float8;
  v_paused float8;
  v_keys bigint[];
  v_is_new bool;
BEGIN
  IF p_now IS NOT NULL THEN
    PERFORM set_config('localqueue.now', p_now::text, true);
  END IF;
  v_now := coalesce(p_now, extract(epoch FROM clock_timestamp())::float8);
  SELECT q.paused_at, q.room_wanted INTO v_paused, v_room FROM localqueue.lq_queues AS q WHERE q.id = p_queue;
  IF v_paused IS NOT NULL THEN
    RETURN;
  END IF;
  IF p_worker IS NOT NULL AND EXISTS (
    SELECT 1 FROM localqueue.lq_workers AS w
     WHERE w.queue = p_queue AND sha256(w.worker) = sha256(p_worker) AND w.paused_at IS NOT NULL
  ) THEN
    RETURN;
  END IF;
  IF p_alone IS NOT NULL AND EXISTS (
    SELECT 1 FROM localqueue.lq_messages AS m WHERE m.queue = p_queue AND m.due_at <= v_now
  ) THEN
    IF NOT p_alone THEN
      RAISE EXCEPTION 'a timer has passed meanwhile' USING ERRCODE = 'LQ001';
    END IF;
    RETURN NEXT;
    RETURN;
  END IF;
  v_keys := ARRAY(
    SELECT m.key FROM localqueue.lq_messages AS m WHERE m.queue = p_queue AND m.state = 0
       AND (p_alone IS NOT NULL OR m.expires_at IS NULL OR m.expires_at > v_now)
     ORDER BY m.priority DESC, m.available_at, m.key LIMIT p_limit FOR UPDATE SKIP LOCKED
  );
  IF cardinality(v_keys) = 0 THEN
    RETURN;
  END IF;
  IF p_consume AND EXISTS (
    SELECT 1 FROM localqueue.lq_messages AS m
     WHERE m.key = ANY (v_keys) AND (m.history > 0 OR m.dependents OR m.run IS NOT NULL OR m.ordering_key IS NOT NULL)
  ) THEN
    IF NOT p_alone THEN
      RAISE EXCEPTION 'something follows from consuming these messages' USING ERRCODE = 'LQ001';
    END IF;
    RETURN NEXT;
    RETURN;
  END IF;
  IF p_ledger IS NULL THEN
    RETURN QUERY
    WITH claimed AS (
      UPDATE localqueue.lq_messages AS m
         SET state = 2, attempts = m.attempts + 1, leased_at = v_now, leased_until = v_now + p_timeout,
             due_at = v_now + p_timeout, leased_by = p_worker, most = p_most
       WHERE m.key = ANY (v_keys)
      RETURNING m.key, m.payload, m.is_text, m.codec, m.priority, m.attempts, m.created_at, m.available_at, m.headers,
                m.dedupe_key, m.ordering_key, m.expires_at, m.run, m.last_error, m.failed_at, m.forgiven, m.history
    )
    SELECT c.key, v_now, c.payload, c.is_text, c.codec, c.priority, c.attempts, c.created_at, c.available_at, c.headers,
           c.dedupe_key, c.ordering_key, c.expires_at,
           CASE WHEN c.run IS NOT NULL THEN (SELECT r.name FROM localqueue.lq_runs AS r WHERE r.id = c.run) END,
           c.last_error, c.failed_at, c.forgiven,
           CASE WHEN c.history > 0 THEN localqueue.lq_history(c.key) END,
           NULL::bytea, NULL::bigint, NULL::float8
      FROM claimed AS c
     ORDER BY c.priority DESC, c.available_at, c.key;
  ELSE
    RETURN QUERY
    WITH claimed AS (
      UPDATE localqueue.lq_messages AS m
         SET state = 2, attempts = m.attempts + 1, leased_at = v_now, leased_until = v_now + p_timeout,
             due_at = v_now + p_timeout, leased_by = p_worker, most = p_most
       WHERE m.key = ANY (v_keys)
      RETURNING m.key, m.payload, m.is_text, m.codec, m.priority, m.attempts, m.created_at, m.available_at, m.headers,
                m.dedupe_key, m.ordering_key, m.expires_at, m.run, m.last_error, m.failed_at, m.forgiven, m.history
    )
    SELECT c.key, v_now, c.payload, c.is_text, c.codec, c.priority, c.attempts, c.created_at, c.available_at, c.headers,
           c.dedupe_key, c.ordering_key, c.expires_at,
           CASE WHEN c.run IS NOT NULL THEN (SELECT r.name FROM localqueue.lq_runs AS r WHERE r.id = c.run) END,
           c.last_error, c.failed_at, c.forgiven,
           CASE WHEN c.history > 0 THEN localqueue.lq_history(c.key) END,
           r.value, r.version, r.updated_at
      FROM claimed AS c
      LEFT JOIN localqueue.lq_records AS r
        ON r.namespace = p_namespace AND sha256(r.kind) = sha256(p_ledger)
       AND substring(r.key FROM 1 FOR 200) = substring(p_name || '\x3a' || c.dedupe_key FROM 1 FOR 200)
       AND sha256(r.key) = sha256(p_name || '\x3a' || c.dedupe_key)
     ORDER BY c.priority DESC, c.available_at, c.key;
  END IF;
  IF p_consume THEN
    DELETE FROM localqueue.lq_messages AS m WHERE m.key = ANY (v_keys);
  END IF;
  IF p_counted AND p_worker IS NOT NULL THEN
    INSERT INTO localqueue.lq_workers AS w (queue, worker, leases) VALUES (p_queue, p_worker, cardinality(v_keys))
    ON CONFLICT (queue, sha256(worker)) DO UPDATE SET leases = w.leases + excluded.leases
    RETURNING w.leases = cardinality(v_keys) INTO v_is_new;
    -- Names that never sent a heartbeat are forgotten if there are many (NAMES in rules.py).
    IF v_is_new AND 250 < (
      SELECT count(*) FROM localqueue.lq_workers AS o
       WHERE o.queue = p_queue AND o.last_seen IS NULL AND o.paused_at IS NULL
    ) THEN
      DELETE FROM localqueue.lq_workers AS w WHERE w.ctid = ANY (ARRAY(
        SELECT o.ctid FROM localqueue.lq_workers AS o
         WHERE o.queue = p_queue AND o.last_seen IS NULL AND o.paused_at IS NULL AND o.worker <> p_worker
           FOR UPDATE SKIP LOCKED));
    END IF;
  END IF;
  IF v_room > v_now THEN
    PERFORM pg_notify(p_channel, p_token);
  END IF;
END $$;

-- A worker's step: acks of one queue, records, and the next claim. A row without a key says that nothing was done
-- because there is more to it; the store then takes the long way. What others do at the same time can also have it find
-- that out too late: then it raises LQ001, which undoes it.
CREATE OR REPLACE FUNCTION localqueue.lq_step(
  p_keys bigint[], p_tokens int[], p_kinds bytea[], p_names bytea[], p_values bytea[], p_versions bigint[],
  p_expect bigint[],
  p_now float8, p_queue int, p_limit int, p_timeout float8, p_worker bytea, p_most int, p_consume bool, p_counted bool,
  p_namespace int, p_ledger bytea, p_name bytea, p_channel text, p_token text
) RETURNS TABLE (
  o_key bigint, o_at float8, o_payload bytea, o_is_text bool, o_codec text, o_priority bigint, o_attempts int,
  o_created_at float8, o_available_at float8, o_headers bytea, o_dedupe_key bytea, o_ordering_key bytea,
  o_expires_at float8, o_run bytea, o_last_error text, o_failed_at float8, o_forgiven int, o_history text,
  o_record bytea, o_version bigint, o_updated_at float8
) LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan AS $$
DECLARE
  v_count int;
  v_history int;
BEGIN
  IF p_now IS NOT NULL THEN
    PERFORM set_config('localqueue.now', p_now::text, true);
  END IF;
  SELECT count(*) INTO v_count FROM unnest(p_keys, p_tokens) AS a (key, token) JOIN localqueue.lq_messages AS m
      ON m.key = a.key AND m.queue = p_queue AND m.state = 2 AND m.attempts = a.token
     AND NOT m.dependents AND m.run IS NULL AND m.ordering_key IS NULL;
  IF v_count <> cardinality(p_keys) OR (p_limit > 0 AND EXISTS (
    SELECT 1 FROM localqueue.lq_messages AS m WHERE m.queue = p_queue AND m.due_at <= localqueue.lq_now()
       AND m.key <> ALL (p_keys)
  )) THEN
    RETURN NEXT;
    RETURN;
  END IF;
  WITH acked AS (
    DELETE FROM localqueue.lq_messages AS m USING unnest(p_keys, p_tokens) AS a (key, token)
     WHERE m.key = a.key AND m.queue = p_queue AND m.state = 2 AND m.attempts = a.token
       AND NOT m.dependents AND m.run IS NULL AND m.ordering_key IS NULL
    RETURNING m.history
  )
  SELECT count(*), max(acked.history) INTO v_count, v_history FROM acked;
  IF v_count <> cardinality(p_keys) THEN
    RAISE EXCEPTION 'a message changed while it was acked' USING ERRCODE = 'LQ001';
  END IF;
  IF v_history > 0 THEN
    DELETE FROM localqueue.lq_attempts AS a WHERE a.message = ANY (p_keys);
  END IF;
  FOR i IN 1 .. cardinality(p_kinds) LOOP
    IF NOT localqueue.lq_write_record(
      p_namespace, p_kinds[i], p_names[i], p_values[i], p_versions[i], p_expect[i], localqueue.lq_now()
    ) THEN
      RAISE EXCEPTION 'a record is in another version' USING ERRCODE = 'LQ001';
    END IF;
  END LOOP;
  IF p_limit > 0 THEN
    RETURN QUERY SELECT * FROM localqueue.lq_claim(
      false, p_now, p_queue, p_limit, p_timeout, p_worker, p_most, p_consume, p_counted, p_namespace, p_ledger, p_name,
      p_channel, p_token
    );
  END IF;
END $$;

-- Sets (or with no value deletes) a record; whether it was in the version that the caller expects.
CREATE OR REPLACE FUNCTION localqueue.lq_write_record(
  p_namespace int, p_kind bytea, p_key bytea, p_value bytea, p_version bigint, p_expect bigint, p_now float8
) RETURNS bool LANGUAGE plpgsql
SET jit = off SET enable_seqscan = off SET plan_cache_mode = force_generic_plan AS $$
BEGIN
  IF p_value IS NULL THEN
    DELETE FROM localqueue.lq_records AS r
     WHERE r.namespace = p_namespace AND sha256(r.kind) = sha256(p_kind)
       AND substring(r.key FROM 1 FOR 200) = substring(p_key FROM 1 FOR 200) AND sha256(r.key) = sha256(p_key)
       AND (p_expect IS NULL OR r.version = p_expect);
    RETURN FOUND OR (coalesce(p_expect, 0) = 0 AND NOT EXISTS (
      SELECT 1 FROM localqueue.lq_records AS r
       WHERE r.namespace = p_namespace AND sha256(r.kind) = sha256(p_kind)
         AND substring(r.key FROM 1 FOR 200) = substring(p_key FROM 1 FOR 200) AND sha256(r.key) = sha256(p_key)));
  ELSIF p_expect = 0 THEN
    INSERT INTO localqueue.lq_records (namespace, kind, key, value, version, updated_at)
    VALUES (p_namespace, p_kind, p_key, p_value, p_version, p_now)
    ON CONFLICT (namespace, sha256(kind), substring(key FROM 1 FOR 200), sha256(key)) DO NOTHING;
  ELSIF p_expect IS NULL THEN
    INSERT INTO localqueue.lq_records (namespace, kind, key, value, version, updated_at)
    VALUES (p_namespace, p_kind, p_key, p_value, p_version, p_now)
    ON CONFLICT (namespace, sha256(kind), substring(key FROM 1 FOR 200), sha256(key))
    DO UPDATE SET value = excluded.value, version = excluded.version, updated_at = excluded.updated_at;
  ELSE
    UPDATE localqueue.lq_records AS r SET value = p_value, version = p_version, updated_at = p_now
     WHERE r.namespace = p_namespace AND sha256(r.kind) = sha256(p_kind)
       AND substring(r.key FROM 1 FOR 200) = substring(p_key FROM 1 FOR 200) AND sha256(r.key) = sha256(p_key)
       AND r.version = p_expect;
  END IF;
  RETURN FOUND;
END $$;
