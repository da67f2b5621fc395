SELECT d.upstream FROM localqueue.lq_dependencies AS d JOIN localqueue.lq_messages AS m ON m.key = d.dependent
 WHERE d.dependent = $1::bigint AND m.queue = $2::int ORDER BY d.upstream
