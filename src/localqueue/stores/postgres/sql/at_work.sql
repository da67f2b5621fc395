-- Not a session whose answer is on the way to us, or that waits for us: what it says, or what we said, was lost.
SELECT 1 FROM pg_catalog.pg_stat_activity
 WHERE pid = $1 AND state = 'active' AND wait_event_type IS DISTINCT FROM 'Client'
