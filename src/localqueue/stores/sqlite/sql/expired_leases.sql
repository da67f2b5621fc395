SELECT key, count, until, since, by, most FROM lq_line
 WHERE queue = ? AND part = 1 AND until <= ? ORDER BY until, key LIMIT ?
