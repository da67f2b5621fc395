INSERT INTO lq_records (namespace, kind, key, value, version, updated_at)
VALUES (:namespace, :kind, :key, :value, :version, :now)
ON CONFLICT DO UPDATE SET value = excluded.value, version = excluded.version, updated_at = excluded.updated_at
