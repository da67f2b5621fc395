SELECT min(coalesce((SELECT min(until) FROM line WHERE queue = ?1 AND part = 1), 9e999),
           coalesce((SELECT min(due_at) FROM messages WHERE queue = ?1 AND due_at IS NOT NULL), 9e999))
