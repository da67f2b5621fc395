SELECT iif(l.key IS NULL, m.state, 2), count(*)
  FROM lq_messages AS m
  LEFT JOIN lq_line AS l ON l.queue = m.queue AND l.part = 1 AND l.rank = 0 AND l.position = 0 AND l.key = m.key
 WHERE m.run = ?
 GROUP BY 1
