-- Ends the lease of what is not inflight.
UPDATE localqueue.lq_messages AS m
   SET state = u.state, available_at = u.available_at, due_at = u.due_at, ended_at = u.ended_at,
       expires_at = u.expires_at, waiting_on = u.waiting_on, dependents = u.dependents, forgiven = u.forgiven,
       history = u.history, last_error = u.last_error, failed_at = u.failed_at,
       leased_at = CASE WHEN u.state = 2 THEN m.leased_at END,
       leased_until = CASE WHEN u.state = 2 THEN m.leased_until END,
       leased_by = CASE WHEN u.state = 2 THEN m.leased_by END, most = CASE WHEN u.state = 2 THEN m.most END
  FROM unnest($1::bigint[], $2::smallint[], $3::float8[], $4::float8[], $5::float8[], $6::float8[], $7::int[],
              $8::bool[], $9::int[], $10::int[], $11::text[], $12::float8[])
    AS u (key, state, available_at, due_at, ended_at, expires_at, waiting_on, dependents, forgiven, history, last_error,
          failed_at)
 WHERE m.key = u.key
