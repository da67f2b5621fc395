INSERT INTO lq_journals (namespace, enabled, last, keep_seconds, keep_events) VALUES (?, 1, ?, ?, ?)
ON CONFLICT DO UPDATE SET enabled = 1, keep_seconds = excluded.keep_seconds, keep_events = excluded.keep_events
