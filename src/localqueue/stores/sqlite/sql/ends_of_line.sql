SELECT part, count, until, since FROM line WHERE queue = ? AND part IN (0, 3)
