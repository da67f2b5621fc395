-- What no two databases share: their number on the server, and when that server was started.
SELECT (SELECT oid FROM pg_database WHERE datname = current_database()), pg_postmaster_start_time()::text
