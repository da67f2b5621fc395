DELETE FROM lq_runs WHERE id IN (
  SELECT r.id FROM lq_runs AS r
   WHERE r.namespace = ? AND r.touched_at < ? AND NOT EXISTS (SELECT 1 FROM lq_messages AS m WHERE m.run = r.id) LIMIT ?)
