DELETE FROM lq_line WHERE queue = ? AND part = 1 AND rank = 0 AND position = 0 AND key = ? AND count = ?
