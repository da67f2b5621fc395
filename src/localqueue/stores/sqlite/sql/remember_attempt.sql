INSERT INTO attempts (message, n, attempt, event, at, leased_at, leased_by, error)
SELECT :key, coalesce(max(n), 0) + 1, :attempt, :event, :at, :leased_at, :leased_by, :error
  FROM attempts WHERE message = :key
RETURNING n
