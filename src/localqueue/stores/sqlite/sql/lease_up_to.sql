INSERT INTO lq_line (queue, part, rank, position, key, count, until, since, by, most)
SELECT queue, 1, 0, 0, key, count + 1, ?, ?, ?, ?
  FROM lq_line WHERE queue = ? AND part = 2 AND (rank, position, key) <= (?, ?, ?)
