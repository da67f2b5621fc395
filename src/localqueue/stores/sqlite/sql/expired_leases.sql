 WHERE m.key IN (SELECT key FROM lq_line WHERE queue = ?1 AND part = 1 AND until <= ?2 ORDER BY until, key LIMIT ?3)
