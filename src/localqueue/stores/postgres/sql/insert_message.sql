INSERT INTO localqueue.lq_messages
  (key, queue, state, priority, created_at, available_at, payload, is_text, codec, headers, due_at, ended_at,
   waiting_on, run, ordering_key, dedupe_key, expires_at, attempts, forgiven, history, last_error, failed_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
