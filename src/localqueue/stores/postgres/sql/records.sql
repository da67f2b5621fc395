SELECT kind, key, value, version, updated_at FROM localqueue.lq_records
 WHERE namespace = $1::int AND sha256(kind) = sha256($2::bytea)
   AND substring(key FROM 1 FOR 200) >= substring($3::bytea FROM 1 FOR 200) AND key > $3::bytea
 ORDER BY substring(key FROM 1 FOR 200), key
 LIMIT $4::bigint
