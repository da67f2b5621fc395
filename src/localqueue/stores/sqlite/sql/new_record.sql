-- Where there is none. The first line of values stands for as many as are written at once.
INSERT INTO lq_records (namespace, kind, key, value, version, updated_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
