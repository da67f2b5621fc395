INSERT INTO localqueue.lq_guests (now, messages, runs, totals, queues, dropped)
VALUES ($1::float8, $2::bigint[], $3::int[], $4::int[], $5::int[], $6::int[])
