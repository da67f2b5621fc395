DELETE FROM lq_messages
 WHERE key IN (SELECT value FROM json_each(?1))
   AND EXISTS (SELECT 1 FROM lq_line
                WHERE queue = ?2 AND part = 1 AND rank = 0 AND position = 0 AND key = lq_messages.key AND count = ?3)
RETURNING key, history, dependents, run, ordering_key
