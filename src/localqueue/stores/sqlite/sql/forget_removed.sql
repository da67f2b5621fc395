DELETE FROM lq_removed WHERE key IN (SELECT key FROM lq_removed WHERE key < ? ORDER BY key LIMIT ?)
