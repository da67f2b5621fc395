INSERT INTO lq_line (queue, part, rank, position, key, count, until, since, by, most) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
