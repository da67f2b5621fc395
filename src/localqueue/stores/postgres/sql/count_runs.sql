UPDATE localqueue.lq_runs AS r
   SET total = r.total + c.total, done = r.done + c.done,
       touched_at = CASE WHEN $4::float8 > r.touched_at + 3600 THEN $4::float8 ELSE r.touched_at END
  FROM unnest($1::int[], $2::int[], $3::int[]) AS c (id, total, done) WHERE r.id = c.id
