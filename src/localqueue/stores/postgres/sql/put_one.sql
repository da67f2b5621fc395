INSERT INTO localqueue.lq_messages (key, queue, state, created_at, available_at, payload, is_text, codec)
VALUES ($2::bigint, $3::int, 0, coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8),
        coalesce($1::float8, extract(epoch FROM statement_timestamp())::float8), $4::bytea, $5::bool, $6::text)
RETURNING created_at, pg_notify($7, $8)
