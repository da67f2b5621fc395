UPDATE lq_messages
   SET state = ?2, attempts = ?3, available_at = ?4, due_at = ?5, ended_at = ?6, expires_at = ?7, last_error = ?8,
       failed_at = ?9, forgiven = ?10, history = ?11, waiting_on = ?12, dependents = ?13
 WHERE key = ?1
