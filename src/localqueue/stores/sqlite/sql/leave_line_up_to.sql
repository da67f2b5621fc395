DELETE FROM lq_line WHERE queue = ? AND part = 2 AND (rank, position, key) <= (?, ?, ?)
