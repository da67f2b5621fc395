UPDATE lq_runs SET cancelled_at = coalesce(cancelled_at, ?) WHERE namespace = ? AND name = ? RETURNING id
