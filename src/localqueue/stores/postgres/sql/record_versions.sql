-- In which version each of these records is, in the order of their keys; 0 for one that is not there.
SELECT coalesce((SELECT r.version FROM localqueue.lq_records AS r
                  WHERE r.namespace = $1::int AND sha256(r.kind) = sha256($2::bytea)
                    AND substring(r.key FROM 1 FOR 200) = substring(w.key FROM 1 FOR 200)
                    AND sha256(r.key) = sha256(w.key)), 0)
  FROM unnest($3::bytea[]) WITH ORDINALITY AS w (key, n) ORDER BY w.n
