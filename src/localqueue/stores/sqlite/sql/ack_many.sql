-- Of these messages, those that are leased with the token and leave nothing else to do; see `ack_one.sql`.
DELETE FROM lq_messages
 WHERE key IN (SELECT value FROM json_each(?1)) AND history = 0 AND dependents = 0 AND run IS NULL AND ordering_key IS NULL
   AND EXISTS (SELECT 1 FROM lq_line
                WHERE queue = ?2 AND part = 1 AND rank = 0 AND position = 0 AND key = lq_messages.key AND count = ?3)
