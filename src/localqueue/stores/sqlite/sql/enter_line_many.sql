-- The messages of one batch: consecutive keys, put into one queue at one time.
INSERT INTO lq_line (queue, part, rank, position, key, count)
SELECT queue, 2, -priority, created_at, key, 0
  FROM lq_messages WHERE key BETWEEN ? AND ? AND queue = ? AND created_at = ?
