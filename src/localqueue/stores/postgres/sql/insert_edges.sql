INSERT INTO localqueue.lq_dependencies (upstream, dependent)
SELECT * FROM unnest($1::bigint[], $2::bigint[]) ON CONFLICT DO NOTHING
