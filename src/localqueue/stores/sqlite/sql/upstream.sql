SELECT d.upstream
  FROM lq_dependencies AS d JOIN lq_messages AS m ON m.key = d.dependent
 WHERE d.dependent = ? AND m.queue = ?
 ORDER BY d.upstream
