UPDATE lq_messages
   SET state = :state, attempts = :attempts, available_at = :available_at, due_at = :due_at, ended_at = :ended_at,
       expires_at = :expires_at, last_error = coalesce(:error, last_error), failed_at = coalesce(:failed_at, failed_at)
 WHERE key = :key
