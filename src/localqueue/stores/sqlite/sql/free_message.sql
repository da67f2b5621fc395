UPDATE lq_messages SET state = 0, waiting_on = 0, available_at = ?2 WHERE key = ?1
