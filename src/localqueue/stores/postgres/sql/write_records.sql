-- One after the other, each seeing those before it: whether it was in the version that was expected.
SELECT localqueue.lq_write_record($1::int, w.kind, w.key, w.value, w.version, w.expect, $2::float8)
  FROM unnest($3::bytea[], $4::bytea[], $5::bytea[], $6::bigint[], $7::bigint[]) AS w (kind, key, value, version, expect)
