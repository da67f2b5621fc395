UPDATE queues SET ready = ready + ? WHERE id = ?
