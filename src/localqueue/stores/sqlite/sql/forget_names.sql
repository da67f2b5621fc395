-- Names that never sent a heartbeat, but for one of them, if there are more than so many.
DELETE FROM lq_workers WHERE queue = ?1 AND last_seen IS NULL AND paused_at IS NULL AND worker != ?2
   AND ?3 < (SELECT count(*) FROM lq_workers WHERE queue = ?1 AND last_seen IS NULL AND paused_at IS NULL)
