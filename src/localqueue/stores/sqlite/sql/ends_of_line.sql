SELECT part, count, until, since, most FROM lq_line WHERE queue = ? AND part IN (0, 3)
