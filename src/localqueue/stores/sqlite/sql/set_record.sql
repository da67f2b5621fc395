-- ?7 is the version that the record is expected in: 0 for one that is not there, NULL for any.
INSERT INTO lq_records (namespace, kind, key, value, version, updated_at)
SELECT ?1, ?2, ?3, ?4, ?5, ?6
 WHERE coalesce(?7, 0) = 0 OR EXISTS (SELECT 1 FROM lq_records WHERE namespace = ?1 AND kind = ?2 AND key = ?3)
ON CONFLICT DO UPDATE SET value = excluded.value, version = excluded.version, updated_at = excluded.updated_at
 WHERE ?7 IS NULL OR version = ?7
