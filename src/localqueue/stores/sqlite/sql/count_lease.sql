UPDATE queues SET ready = ready - 1, inflight = inflight + 1, due = min(due, ?)
 WHERE id = ? AND ready > 0 AND paused = 0 AND due > ?
