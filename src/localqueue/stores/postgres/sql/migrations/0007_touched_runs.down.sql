ALTER TABLE localqueue.lq_runs DROP COLUMN touched_at;
