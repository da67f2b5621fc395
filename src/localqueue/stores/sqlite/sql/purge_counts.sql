UPDATE lq_queues
   SET delayed = 0, waiting = 0, blocked = 0, dead = 0, expired = 0, cancelled = 0, dropped = 0
 WHERE id = ?
