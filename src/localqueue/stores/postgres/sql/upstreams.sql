-- The edges above messages: theirs, those of the ones they wait for, and so on.
WITH RECURSIVE above (upstream, dependent) AS (
  SELECT d.upstream, d.dependent FROM localqueue.lq_dependencies AS d WHERE d.dependent = ANY ($1::bigint[])
  UNION
  SELECT d.upstream, d.dependent FROM localqueue.lq_dependencies AS d JOIN above ON d.dependent = above.upstream
)
SELECT upstream, dependent FROM above
