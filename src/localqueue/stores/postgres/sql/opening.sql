-- All that a store has to know when there is nothing to make: the server's settings, the version, and the namespace.
SELECT pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('plan_cache_mode') = 'force_generic_plan',
       (SELECT coalesce(max(v.version), 0) FROM localqueue.lq_migrations AS v), found.id, found.secret
  FROM (VALUES (1)) AS one (n)
  LEFT JOIN localqueue.lq_namespaces AS found ON sha256(found.name) = sha256($1::bytea)
