-- When the next ready or blocked message outlives its time, which makes room.
SELECT coalesce(min(due_at), 9e999) FROM lq_messages WHERE queue = ? AND due_at > ? AND state IN (0, 4)
