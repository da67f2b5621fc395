UPDATE lq_runs SET total = total + ?, done = done + ?, touched_at = iif(?3 > touched_at + 3600, ?3, touched_at) WHERE id = ?
