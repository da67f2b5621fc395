SELECT leased_by, count(*), min(leased_at), sum(leased_at) FROM localqueue.lq_messages
 WHERE queue = $1::int AND due_at > $2::float8 AND state = 2
 GROUP BY leased_by
