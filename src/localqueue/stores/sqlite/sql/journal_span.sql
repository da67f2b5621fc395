SELECT (SELECT min(id) FROM lq_journal WHERE id > ?1 << 48 AND id < (?1 + 1) << 48),
       max(last, coalesce((SELECT max(id) FROM lq_journal WHERE id > ?1 << 48 AND id < (?1 + 1) << 48), 0))
  FROM lq_journals
 WHERE namespace = ?1
