INSERT INTO lq_records (namespace, kind, key, value, version, updated_at)
VALUES (:namespace, :kind, :key, :value, :version, :now)
ON CONFLICT DO NOTHING
