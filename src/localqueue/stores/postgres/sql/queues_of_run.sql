SELECT DISTINCT m.queue
  FROM localqueue.lq_messages AS m JOIN localqueue.lq_runs AS r ON r.id = m.run
 WHERE r.namespace = $1::int AND sha256(r.name) = sha256($2::bytea)
