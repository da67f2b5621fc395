-- Leaves the mark that has leases tell of the room they make; rarely enough that it costs nothing.
UPDATE localqueue.lq_queues SET room_wanted = at.now + 20
  FROM (SELECT coalesce($1::float8, extract(epoch FROM clock_timestamp())::float8) AS now) AS at
 WHERE id = ANY ($2::int[]) AND (room_wanted IS NULL OR room_wanted < at.now + 10)
