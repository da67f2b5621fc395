-- A message that comes with a past has times of its own; the journal tells when it came, and counts from then. What it
-- has just written about the message is among its last two entries.
UPDATE lq_journal SET at = ?1, options = CASE type WHEN 1 THEN ?4 END
 WHERE key = ?2
   AND id IN (SELECT id FROM lq_journal WHERE id >= ?3 << 48 AND id < (?3 + 1) << 48 ORDER BY id DESC LIMIT 2)
