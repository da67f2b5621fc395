-- Read as rows: what a session remembers of names (to_regclass) may be older than the lock it has just got.
SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = $1::text AND c.relname = 'lq_migrations'
