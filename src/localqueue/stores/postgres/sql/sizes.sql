-- The tables of the schema, the bytes each takes with its indexes, and whether this user may vacuum it.
SELECT format('%I.%I', n.nspname, c.relname), pg_total_relation_size(c.oid), pg_has_role(c.relowner, 'USAGE')
  FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE n.nspname = $1 AND c.relkind = 'r'
 ORDER BY c.relname
