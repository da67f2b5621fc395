INSERT INTO lq_line (queue, part, rank, position, key, count, until) VALUES (?, 2, ?, ?, ?, ?, ?)
