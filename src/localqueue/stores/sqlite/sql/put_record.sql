-- Whatever version the record is in. The first line of values stands for as many as are written at once.
INSERT INTO lq_records (namespace, kind, key, value, version, updated_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET value = excluded.value, version = excluded.version, updated_at = excluded.updated_at
