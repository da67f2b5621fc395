SELECT r.total, r.done, m.state, count(m.key)
  FROM localqueue.lq_runs AS r LEFT JOIN localqueue.lq_messages AS m ON m.run = r.id
 WHERE r.namespace = $1::int AND sha256(r.name) = sha256($2::bytea)
 GROUP BY r.id, m.state
