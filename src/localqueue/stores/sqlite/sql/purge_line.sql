UPDATE lq_line SET until = 9e999, count = (SELECT count FROM lq_line WHERE queue = ?1 AND part = 3)
 WHERE queue = ?1 AND part = 0
