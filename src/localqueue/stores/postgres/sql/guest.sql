-- What we have to know of a user's session. Its search_path is theirs, so nothing here is looked for in it.
SELECT (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()),
       extract(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.text, pg_catalog.current_setting('transaction_isolation'),
       pg_catalog.current_setting('lock_timeout'), pg_catalog.current_setting('search_path')
