DELETE FROM localqueue.lq_journal
 WHERE namespace = $1::int AND at <= $2::float8 AND seq <= coalesce($3::bigint, seq)
