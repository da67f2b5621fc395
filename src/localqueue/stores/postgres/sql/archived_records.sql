-- In the order of the index, behind a kind and a key.
SELECT kind, key, value, version, updated_at FROM localqueue.lq_records
 WHERE namespace = $1::int
   AND (sha256(kind), substring(key FROM 1 FOR 200), sha256(key))
     > (coalesce(sha256($2::bytea), ''), coalesce(substring($3::bytea FROM 1 FOR 200), ''), coalesce(sha256($3::bytea), ''))
 ORDER BY sha256(kind), substring(key FROM 1 FOR 200), sha256(key) LIMIT $4::int
