-- Only a message that leaves nothing else to do; any other is left to the engine.
DELETE FROM lq_messages
 WHERE key = ?1 AND history = 0 AND dependents = 0 AND run IS NULL AND ordering_key IS NULL
   AND EXISTS (SELECT 1 FROM lq_line
                WHERE queue = ?2 AND part = 1 AND rank = 0 AND position = 0 AND key = ?1 AND count = ?3)
