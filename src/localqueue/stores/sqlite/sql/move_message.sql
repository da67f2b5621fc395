UPDATE messages
   SET state = :state, available_at = :available_at, due_at = :due_at, ended_at = :ended_at,
       leased_at = NULL, leased_by = NULL,
       last_error = coalesce(:error, last_error), failed_at = coalesce(:failed_at, failed_at)
 WHERE key = :key
