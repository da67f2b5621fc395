UPDATE queues SET inflight = inflight - ? WHERE id = ?
