-- A worker's step: acks of one queue, records, and the next claim. A row without a key says that nothing was done
-- because there is more to it; the store then takes the long way. What it finds out when it has changed something already
-- raises LQ001, which undoes it.
--
-- An ack of a message that has a run, or that others wait for, shares the locks of the queues it changes: any number of
-- steps may do so at a time, and no transaction of several statements meanwhile. It locks in their order: messages,
-- records, runs. Those who wait are told of what came free and was not claimed here; of the run only when somebody has
-- left a mark that he wants to know.
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
  v_shares bool;
  v_now float8;
  v_above bigint[];
  v_below bigint[];
  v_runs int[];
  v_freed bigint[];
  v_said text;
BEGIN
  IF p_now IS NOT NULL THEN
    PERFORM set_config('localqueue.now', p_now::text, true);
  END IF;
  SELECT count(*), bool_or(m.dependents OR m.run IS NOT NULL) INTO v_count, v_shares
    FROM unnest(p_keys, p_tokens) AS a (key, token) JOIN localqueue.lq_messages AS m
      ON m.key = a.key AND m.queue = p_queue AND m.state = 2 AND m.attempts = a.token AND m.ordering_key IS NULL;
  IF v_count <> cardinality(p_keys) OR (p_limit > 0 AND EXISTS (
    SELECT 1 FROM localqueue.lq_messages AS m WHERE m.queue = p_queue AND m.due_at <= localqueue.lq_now()
       AND m.key <> ALL (p_keys)
  )) THEN
    RETURN NEXT;
    RETURN;
  END IF;
  IF v_shares THEN
    PERFORM pg_advisory_xact_lock_shared(1819373157, p_queue);
  END IF;
  WITH acked AS (
    DELETE FROM localqueue.lq_messages AS m USING unnest(p_keys, p_tokens) AS a (key, token)
     WHERE m.key = a.key AND m.queue = p_queue AND m.state = 2 AND m.attempts = a.token AND m.ordering_key IS NULL
       AND (v_shares OR (NOT m.dependents AND m.run IS NULL))
    RETURNING m.key, m.history, m.dependents, m.run
  )
  SELECT count(*), max(acked.history), array_agg(acked.key) FILTER (WHERE acked.dependents),
         array_agg(acked.run) FILTER (WHERE acked.run IS NOT NULL)
    INTO v_count, v_history, v_above, v_runs FROM acked;
  IF v_count <> cardinality(p_keys) THEN
    RAISE EXCEPTION 'a message changed while it was acked' USING ERRCODE = 'LQ001';
  END IF;
  IF v_history > 0 THEN
    DELETE FROM localqueue.lq_attempts AS a WHERE a.message = ANY (p_keys);
  END IF;
  IF v_above IS NOT NULL THEN
    WITH gone AS (
      DELETE FROM localqueue.lq_dependencies AS d WHERE d.upstream = ANY (v_above) RETURNING d.dependent
    )
    SELECT array_agg(gone.dependent) INTO v_below FROM gone;
    PERFORM FROM localqueue.lq_messages AS m WHERE m.key = ANY (v_below) ORDER BY m.key FOR UPDATE;
    IF EXISTS (
      SELECT 1 FROM localqueue.lq_messages AS m
       WHERE m.key = ANY (v_below)
         AND (m.state <> 3 OR m.ordering_key IS NOT NULL OR m.expires_at IS NOT NULL
              OR NOT pg_try_advisory_xact_lock_shared(1819373157, m.queue))
    ) THEN
      RAISE EXCEPTION 'what waits for a message can not just be set free' USING ERRCODE = 'LQ001';
    END IF;
    v_now := localqueue.lq_now();
    WITH less AS (
      UPDATE localqueue.lq_messages AS m
         SET waiting_on = m.waiting_on - f.count,
             state = CASE WHEN f.count < m.waiting_on THEN 3 WHEN m.available_at > v_now THEN 1 ELSE 0 END,
             available_at = CASE WHEN f.count < m.waiting_on THEN m.available_at
                                 ELSE greatest(m.available_at, v_now) END,
             due_at = CASE WHEN f.count = m.waiting_on AND m.available_at > v_now THEN m.available_at END
        FROM (SELECT b.key, count(*) AS count FROM unnest(v_below) AS b (key) GROUP BY b.key) AS f
       WHERE m.key = f.key
      RETURNING m.key, m.state
    )
    SELECT array_agg(less.key) FILTER (WHERE less.state < 3) INTO v_freed FROM less;
  END IF;
  FOR i IN 1 .. cardinality(p_kinds) LOOP
    IF NOT localqueue.lq_write_record(
      p_namespace, p_kinds[i], p_names[i], p_values[i], p_versions[i], p_expect[i], localqueue.lq_now()
    ) THEN
      RAISE EXCEPTION 'a record is in another version' USING ERRCODE = 'LQ001';
    END IF;
  END LOOP;
  IF v_runs IS NOT NULL THEN
    v_now := localqueue.lq_now();
    PERFORM FROM localqueue.lq_runs AS r WHERE r.id = ANY (v_runs) ORDER BY r.id FOR NO KEY UPDATE;
    UPDATE localqueue.lq_runs AS r
       SET done = r.done + f.count,
           touched_at = CASE WHEN v_now > r.touched_at + 3600 THEN v_now ELSE r.touched_at END
      FROM (SELECT a.run, count(*) AS count FROM unnest(v_runs) AS a (run) GROUP BY a.run) AS f
     WHERE r.id = f.run;
  END IF;
  IF p_limit > 0 THEN
    RETURN QUERY SELECT * FROM localqueue.lq_claim(
      false, p_now, p_queue, p_limit, p_timeout, p_worker, p_most, p_consume, p_counted, p_namespace, p_ledger, p_name,
      p_channel, p_token
    );
  END IF;
  IF v_shares THEN
    SELECT string_agg(t.token, ',') INTO v_said FROM (
      SELECT DISTINCT left(encode(sha256(q.name), 'hex'), 8) AS token
        FROM localqueue.lq_messages AS m JOIN localqueue.lq_queues AS q ON q.id = m.queue
       WHERE m.key = ANY (v_freed) AND m.state < 2
      UNION ALL
      SELECT 'r' || left(encode(sha256(r.name), 'hex'), 8)
        FROM localqueue.lq_runs AS r
       WHERE r.id = ANY (v_runs)
         AND (SELECT q.room_wanted FROM localqueue.lq_queues AS q WHERE q.id = p_queue) > localqueue.lq_now()
    ) AS t;
    IF v_said IS NOT NULL THEN
      PERFORM pg_notify(p_channel, CASE WHEN length(v_said) < 1000 THEN v_said ELSE '' END);
    END IF;
  END IF;
END $$;
