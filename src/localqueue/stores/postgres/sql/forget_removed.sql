-- But for those that somebody else forgets, perhaps in a transaction of a user.
DELETE FROM localqueue.lq_removed WHERE key IN (
  SELECT key FROM localqueue.lq_removed WHERE namespace = $1::int AND key < $2::bigint
   ORDER BY key LIMIT $3::int FOR UPDATE SKIP LOCKED)
