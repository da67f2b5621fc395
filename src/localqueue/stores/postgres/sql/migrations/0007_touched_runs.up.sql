-- When something of a run was last changed, to the hour: one that nobody has touched for long, and that has no message
-- any more, is forgotten.
ALTER TABLE localqueue.lq_runs ADD COLUMN touched_at float8 NOT NULL DEFAULT 0;
UPDATE localqueue.lq_runs SET touched_at = extract(epoch FROM clock_timestamp())::float8;
CREATE INDEX lq_runs_touched ON localqueue.lq_runs (namespace, touched_at);
