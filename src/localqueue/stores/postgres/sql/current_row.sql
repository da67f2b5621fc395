SELECT key, queue, state, priority, attempts, available_at, expires_at, forgiven, history, dependents, waiting_on, run,
       ordering_key, dedupe_key, last_error, leased_until, leased_at, leased_by, most
  FROM localqueue.lq_messages
 WHERE key = $1
   FOR UPDATE
