UPDATE queues
   SET ready = ready + ?, delayed = delayed + ?, inflight = inflight + ?, waiting = waiting + ?,
       blocked = blocked + ?, dead = dead + ?, expired = expired + ?, cancelled = cancelled + ?, due = min(due, ?)
 WHERE id = ?
