-- A message as the engine decides about it, in the order of the fields of its `Row`.
SELECT m.key, m.queue, m.state, m.priority, m.created_at, m.available_at, m.attempts, m.expires_at, m.ended_at,
       m.leased_until, m.leased_at, m.leased_by, m.most, m.forgiven, m.waiting_on, m.dependents, m.history, m.run,
       m.ordering_key, m.dedupe_key, m.last_error, m.failed_at
  FROM localqueue.lq_messages AS m
