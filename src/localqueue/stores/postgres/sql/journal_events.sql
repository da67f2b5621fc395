SELECT e.seq, e.at, e.type, q.name, e.key, e.attempt, e.worker, e.error, e.payload, e.is_text, e.codec, e.options
  FROM localqueue.lq_journal AS e JOIN localqueue.lq_queues AS q ON q.id = e.queue
