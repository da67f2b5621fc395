-- The messages of a queue whose timers have passed, locked, and how many there seemed to be before they were.
WITH due AS MATERIALIZED (
  SELECT d.key FROM localqueue.lq_messages AS d WHERE d.queue = $1::int AND d.due_at <= $2::float8
   ORDER BY d.due_at, d.key LIMIT $3::int
)
SELECT m.key, m.queue, m.state, m.priority, m.created_at, m.available_at, m.attempts, m.expires_at, m.ended_at,
       m.leased_until, m.leased_at, m.leased_by, m.most, m.forgiven, m.waiting_on, m.dependents, m.history, m.run,
       m.ordering_key, m.dedupe_key, m.last_error, m.failed_at, (SELECT count(*) FROM due)
  FROM localqueue.lq_messages AS m
 WHERE m.key = ANY (ARRAY(SELECT due.key FROM due)) AND m.due_at <= $2::float8
 ORDER BY m.key FOR UPDATE
