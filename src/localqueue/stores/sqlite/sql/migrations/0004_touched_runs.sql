-- When something of a run was last changed, to the hour: one that nobody has touched for long, and that has no message
-- any more, is forgotten.
ALTER TABLE lq_runs ADD COLUMN touched_at REAL NOT NULL DEFAULT 0;
UPDATE lq_runs SET touched_at = CAST(strftime('%s', 'now') AS REAL);
CREATE INDEX lq_runs_touched ON lq_runs (namespace, touched_at);
