SELECT most, since FROM lq_line WHERE queue = ? AND part = 3 AND rank = 0 AND position = 0 AND key = 0
