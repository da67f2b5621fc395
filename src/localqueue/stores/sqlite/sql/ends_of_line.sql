SELECT part, count, until, since FROM lq_line WHERE queue = ? AND part IN (0, 3)
