DELETE FROM localqueue.lq_attempts AS a USING unnest($1::bigint[], $2::int[]) AS old (message, n)
 WHERE a.message = old.message AND a.n <= old.n
