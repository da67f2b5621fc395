DELETE FROM lq_records
 WHERE namespace = ?1 AND kind = ?2 AND key = ?3 AND (?4 IS NULL OR version = ?4)
