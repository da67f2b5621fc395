SELECT DISTINCT live.queue FROM (
  SELECT m.queue
    FROM localqueue.lq_messages AS m JOIN localqueue.lq_runs AS r ON r.id = m.run
   WHERE r.namespace = $1::int AND sha256(r.name) = sha256($2::bytea) AND m.state < 5 AND m.key < $3::bigint
   ORDER BY m.key DESC LIMIT $4
) AS live
