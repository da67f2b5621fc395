-- An ack that nothing follows from. The last line hands a clock that is not the server's on to the journal's triggers.
DELETE FROM localqueue.lq_messages
 WHERE key = $1::bigint AND queue = $2::int AND state = 2 AND attempts = $3::int
   AND history = 0 AND NOT dependents AND run IS NULL AND ordering_key IS NULL
   AND ($4::text IS NULL OR set_config('localqueue.now', $4, true) IS NOT NULL)
