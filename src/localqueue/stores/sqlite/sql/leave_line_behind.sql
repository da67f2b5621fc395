-- For a message that came when the clock was behind the one that the line ends with.
DELETE FROM lq_line WHERE queue = ? AND part = 2 AND rank = ? AND position > ? AND key = ?
