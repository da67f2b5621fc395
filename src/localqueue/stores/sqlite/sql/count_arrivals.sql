UPDATE lq_line SET count = count + ?2, most = max(most, ?3), since = max(since, ?4)
 WHERE queue = ?1 AND part = 3 AND rank = 0 AND position = 0 AND key = 0
