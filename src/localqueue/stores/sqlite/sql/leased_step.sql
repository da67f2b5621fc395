-- A leased message that leaves nothing to do but to set free what comes after it; any other is left to the engine.
SELECT m.run, m.dependents, m.history
  FROM lq_messages AS m
  JOIN lq_line AS l ON l.queue = ?2 AND l.part = 1 AND l.rank = 0 AND l.position = 0 AND l.key = ?1 AND l.count = ?3
 WHERE m.key = ?1 AND m.ordering_key IS NULL
