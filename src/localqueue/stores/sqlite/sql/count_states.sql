UPDATE lq_queues
   SET delayed = delayed + ?, waiting = waiting + ?, blocked = blocked + ?, dead = dead + ?, expired = expired + ?,
       cancelled = cancelled + ?
 WHERE id = ?
