UPDATE localqueue.lq_messages
   SET state = $2, available_at = $3, due_at = $4, ended_at = $5, expires_at = $6,
       last_error = coalesce($7, last_error), failed_at = coalesce($8, failed_at),
       leased_at = NULL, leased_until = NULL, leased_by = NULL, most = NULL
 WHERE key = $1
