UPDATE lq_line SET count = count + ?, until = min(until, ?)
 WHERE queue = ? AND part = 0 AND rank = 0 AND position = 0 AND key = 0
