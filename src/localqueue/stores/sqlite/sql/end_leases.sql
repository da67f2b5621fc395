DELETE FROM line
 WHERE queue = ? AND part = 1 AND rank = 0 AND position = 0 AND key IN (SELECT value FROM json_each(?)) AND count = ?
RETURNING key
