-- The messages of a queue whose keys are multiples of a number, from an index for each kind of state: leased and ready,
-- with a timer, ended, blocked, waiting.
SELECT key FROM lq_line WHERE queue = :queue AND part IN (1, 2) AND key % :every = 0
UNION ALL
SELECT key FROM lq_messages INDEXED BY lq_messages_due
 WHERE queue = :queue AND due_at IS NOT NULL AND key % :every = 0
UNION ALL
SELECT key FROM lq_messages INDEXED BY lq_messages_ended
 WHERE queue = :queue AND ended_at IS NOT NULL AND key % :every = 0
UNION ALL
SELECT key FROM lq_messages INDEXED BY lq_messages_ordering
 WHERE queue = :queue AND ordering_key IS NOT NULL AND state = 4 AND key % :every = 0
UNION ALL
SELECT d.dependent FROM lq_dependencies AS d CROSS JOIN lq_messages AS m ON m.key = d.dependent
 WHERE d.dependent % :every = 0 AND m.queue = :queue
