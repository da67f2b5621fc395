INSERT INTO lq_messages (key, queue, state, priority, created_at, available_at, payload, codec, headers, due_at, ended_at,
                      waiting_on, run, ordering_key, dedupe_key, expires_at)
VALUES (:key, :queue, :state, :priority, :created_at, :available_at, :payload, :codec, :headers, :due_at, :ended_at,
        :waiting_on, :run, :ordering_key, :dedupe_key, :expires_at)
