INSERT INTO localqueue.lq_journals (namespace, enabled, keep_seconds, keep_events) VALUES ($1, true, $2, $3)
ON CONFLICT (namespace) DO UPDATE
   SET enabled = true, keep_seconds = excluded.keep_seconds, keep_events = excluded.keep_events
