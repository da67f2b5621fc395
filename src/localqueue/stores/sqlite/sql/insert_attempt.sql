INSERT INTO lq_attempts (message, n, attempt, event, at, leased_at, leased_by, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
