SELECT coalesce(min(due_at), 9e999) FROM (
  SELECT (SELECT min(due_at) FROM messages WHERE queue = ?1 AND state = s.column1 AND due_at IS NOT NULL) AS due_at
    FROM (VALUES (0), (1), (2), (3), (4)) AS s)
