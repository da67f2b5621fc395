-- Every change of a message writes its entry in the transaction of the change, whichever process makes it.
-- The types are numbered in localqueue.events.journal.

CREATE TRIGGER IF NOT EXISTS lq_journal_put AFTER INSERT ON lq_messages BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, payload, codec, options)
  SELECT id, queue, 1, NEW.created_at, NEW.key, NEW.payload, NEW.codec,
         CASE WHEN NEW.priority != 0 OR NEW.headers IS NOT NULL OR NEW.available_at > NEW.created_at
                OR NEW.expires_at IS NOT NULL OR NEW.dedupe_key IS NOT NULL OR NEW.ordering_key IS NOT NULL
                OR NEW.run IS NOT NULL
         THEN '{' || substr(
           coalesce(',"priority":' || nullif(NEW.priority, 0), '')
           || coalesce(',"dedupe_key":' || nullif(json_quote(NEW.dedupe_key), 'null'), '')
           || coalesce(',"ordering_key":' || nullif(json_quote(NEW.ordering_key), 'null'), '')
           || coalesce(',"run_id":' || (SELECT json_quote(name) FROM lq_runs WHERE id = NEW.run), '')
           || coalesce(',"headers":' || NEW.headers, '')
           || coalesce(',"delay":' || nullif(round(NEW.available_at - NEW.created_at, 6), 0), '')
           || coalesce(',"ttl":' || max(round(NEW.expires_at - NEW.created_at, 6), 0.0), ''), 2) || '}' END
    FROM lq_next_entry WHERE queue = NEW.queue;
  INSERT INTO lq_journal (id, queue, type, at, key, attempt, error)
  SELECT id, queue, CASE NEW.state WHEN 5 THEN 6 WHEN 6 THEN 7 ELSE 9 END, NEW.ended_at, NEW.key, NEW.attempts,
         CASE NEW.state WHEN 5 THEN NEW.last_error END
    FROM lq_next_entry WHERE queue = NEW.queue AND NEW.state >= 5;
END;

CREATE TRIGGER IF NOT EXISTS lq_journal_claimed AFTER UPDATE OF part ON lq_line WHEN NEW.part = 1 BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, attempt, worker)
  SELECT id, queue, 2, NEW.since, NEW.key, NEW.count, NEW.by FROM lq_next_entry WHERE queue = NEW.queue;
END;

CREATE TRIGGER IF NOT EXISTS lq_journal_leased AFTER INSERT ON lq_line WHEN NEW.part = 1 BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, attempt, worker)
  SELECT id, queue, 2, NEW.since, NEW.key, NEW.count, NEW.by FROM lq_next_entry WHERE queue = NEW.queue;
END;

CREATE TRIGGER IF NOT EXISTS lq_journal_renewed AFTER UPDATE OF until ON lq_line WHEN NEW.part = 1 AND OLD.part = 1 BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, attempt, worker)
  SELECT id, queue, 3, localqueue_now(), NEW.key, NEW.count, NEW.by FROM lq_next_entry WHERE queue = NEW.queue;
END;

-- Before, because its lease goes with it.
CREATE TRIGGER IF NOT EXISTS lq_journal_gone BEFORE DELETE ON lq_messages BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, attempt, worker)
  SELECT n.id, n.queue, coalesce((SELECT why FROM lq_removed WHERE key = OLD.key), 4), localqueue_now(), OLD.key,
         coalesce(l.count, OLD.attempts), l.by
    FROM lq_next_entry AS n
    LEFT JOIN lq_line AS l
      ON l.queue = OLD.queue AND l.part = 1 AND l.rank = 0 AND l.position = 0 AND l.key = OLD.key
   WHERE n.queue = OLD.queue;
END;

CREATE TRIGGER IF NOT EXISTS lq_journal_attempt AFTER INSERT ON lq_attempts BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, attempt, worker, error)
  SELECT n.id, n.queue,
         CASE NEW.event WHEN 'released' THEN 5 WHEN 'dead_lettered' THEN 6 WHEN 'expired' THEN 7
                        WHEN 'lease_expired' THEN 8 WHEN 'cancelled' THEN 9 WHEN 'requeued' THEN 10 END,
         NEW.at, NEW.message, NEW.attempt, NEW.leased_by, NEW.error
    FROM lq_messages AS m JOIN lq_next_entry AS n ON n.queue = m.queue WHERE m.key = NEW.message;
END;

-- A message that left delivery although its history says something else: a lease that expired once too often, a
-- release or an upstream's ack after the time to live.
CREATE TRIGGER IF NOT EXISTS lq_journal_ended AFTER UPDATE OF state ON lq_messages
WHEN NEW.state >= 5 AND OLD.state < 5
 AND NOT EXISTS (SELECT 1 FROM lq_attempts WHERE message = NEW.key AND n = NEW.history
                    AND event = CASE NEW.state WHEN 5 THEN 'dead_lettered' WHEN 6 THEN 'expired' ELSE 'cancelled' END)
BEGIN
  INSERT INTO lq_journal (id, queue, type, at, key, attempt, error)
  SELECT id, queue, CASE NEW.state WHEN 5 THEN 6 WHEN 6 THEN 7 ELSE 9 END, NEW.ended_at, NEW.key, NEW.attempts,
         CASE NEW.state WHEN 5 THEN NEW.last_error END
    FROM lq_next_entry WHERE queue = NEW.queue;
END;

-- Retention, by the rule of `localqueue.stores.retention`: every 64 entries look at the 128 oldest.
CREATE TRIGGER IF NOT EXISTS lq_journal_kept AFTER INSERT ON lq_journal
WHEN NEW.id % 64 = 0
 AND EXISTS (SELECT 1 FROM lq_journals WHERE namespace = NEW.id >> 48 AND coalesce(keep_events, keep_seconds) IS NOT NULL)
BEGIN
  DELETE FROM lq_journal
   WHERE id IN (SELECT id FROM lq_journal WHERE id >= (NEW.id >> 48) << 48 AND id < NEW.id ORDER BY id LIMIT 128)
     AND (id <= NEW.id - (SELECT keep_events FROM lq_journals WHERE namespace = NEW.id >> 48)
          OR at < (SELECT min(NEW.at, e.at) - j.keep_seconds FROM lq_journals AS j, lq_journal AS e
                    WHERE j.namespace = NEW.id >> 48 AND e.id = NEW.id - 64)
          OR at > NEW.at
             AND id < (SELECT max(m.id) FROM lq_journals AS j, lq_journal AS e, lq_journal AS m
                        WHERE j.namespace = NEW.id >> 48 AND e.id = NEW.id - 64
                          AND m.id > (NEW.id >> 48) << 48 AND m.at < min(NEW.at, e.at) - j.keep_seconds
                          AND m.id IN (NEW.id - 64, NEW.id - 128, NEW.id - 256, NEW.id - 512, NEW.id - 1024,
                                       NEW.id - 2048, NEW.id - 4096, NEW.id - 8192, NEW.id - 16384, NEW.id - 32768,
                                       NEW.id - 65536, NEW.id - 131072, NEW.id - 262144, NEW.id - 524288,
                                       NEW.id - 1048576, NEW.id - 2097152, NEW.id - 4194304, NEW.id - 8388608,
                                       NEW.id - 16777216, NEW.id - 33554432, NEW.id - 67108864)));
END;
