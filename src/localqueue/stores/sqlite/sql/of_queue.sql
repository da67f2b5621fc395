-- Messages of a queue by the indexes that have them, since none has all: a walk over the table would pass those of other
-- queues. What is blocked or waits comes before what would set it free.
SELECT m.key FROM lq_queues AS q CROSS JOIN lq_messages AS m INDEXED BY lq_messages_ordering
 WHERE q.id = ?1 AND q.blocked > 0 AND m.queue = ?1 AND m.ordering_key IS NOT NULL AND m.state = 4
UNION ALL
SELECT DISTINCT m.key
  FROM lq_queues AS q CROSS JOIN lq_dependencies AS d CROSS JOIN lq_messages AS m ON m.key = d.dependent
 WHERE q.id = ?1 AND q.waiting > 0 AND m.queue = ?1 AND m.state = 3
UNION ALL
SELECT key FROM lq_line WHERE queue = ?1 AND part IN (1, 2)
UNION ALL
SELECT m.key FROM lq_queues AS q CROSS JOIN lq_messages AS m INDEXED BY lq_messages_due
 WHERE q.id = ?1 AND q.delayed > 0 AND m.queue = ?1 AND m.due_at IS NOT NULL AND m.state = 1
UNION ALL
SELECT key FROM lq_messages INDEXED BY lq_messages_ended WHERE queue = ?1 AND ended_at IS NOT NULL AND state IN (5, 6, 7)
 LIMIT ?2
