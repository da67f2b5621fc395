INSERT INTO lq_records (namespace, kind, key, value, version, updated_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING
