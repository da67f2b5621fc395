DELETE FROM lq_line WHERE queue = ? AND part = 2 AND rank = ? AND position = ? AND key = ?
