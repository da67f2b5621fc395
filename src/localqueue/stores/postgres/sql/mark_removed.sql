INSERT INTO localqueue.lq_removed (key, namespace, why)
SELECT r.key, $3::int, r.why FROM unnest($1::bigint[], $2::smallint[]) AS r (key, why) ON CONFLICT DO NOTHING
