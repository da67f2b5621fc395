COPY localqueue.lq_messages (key, queue, state, created_at, available_at, payload, is_text, codec) FROM STDIN (FORMAT binary)
