SELECT id, name, total, done, cancelled_at FROM localqueue.lq_runs
 WHERE namespace = $1::int AND id > $2::int ORDER BY id LIMIT $3::int
