DELETE FROM lq_workers WHERE queue = ? AND last_seen < ? AND paused_at IS NULL
