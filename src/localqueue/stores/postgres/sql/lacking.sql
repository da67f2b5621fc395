-- What the user would need and is not granted, as GRANT names it. One who only looks ($1) needs less.
SELECT wanted.privilege || ' ON TABLE ' || c.oid::regclass
  FROM pg_class AS c CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted (privilege)
 WHERE c.relnamespace = (SELECT m.relnamespace FROM pg_class AS m WHERE m.oid = 'localqueue.lq_migrations'::regclass)
   AND c.relkind = 'r' AND starts_with(c.relname, 'lq_')
   AND (wanted.privilege = 'SELECT' OR NOT ($1::bool OR c.relname = 'lq_migrations'))
   AND NOT has_table_privilege(c.oid, wanted.privilege)
UNION ALL
SELECT 'EXECUTE ON FUNCTION ' || p.oid::regproc
  FROM pg_proc AS p
 WHERE p.pronamespace = (SELECT m.relnamespace FROM pg_class AS m WHERE m.oid = 'localqueue.lq_migrations'::regclass)
   AND starts_with(p.proname, 'lq_') AND p.prorettype <> 'trigger'::regtype
   AND NOT has_function_privilege(p.oid, 'EXECUTE')
 ORDER BY 1
