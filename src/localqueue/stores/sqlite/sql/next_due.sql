SELECT min(coalesce((SELECT min(until) FROM lq_line WHERE queue = ?1 AND part = 1), 9e999),
           coalesce((SELECT min(due_at) FROM lq_messages WHERE queue = ?1 AND due_at IS NOT NULL), 9e999))
