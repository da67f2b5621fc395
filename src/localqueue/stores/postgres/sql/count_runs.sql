UPDATE localqueue.lq_runs AS r SET total = r.total + c.total, done = r.done + c.done
  FROM unnest($1::int[], $2::int[], $3::int[]) AS c (id, total, done) WHERE r.id = c.id
