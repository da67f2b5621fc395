INSERT INTO localqueue.lq_namespaces (name, secret) VALUES ($1, $2) ON CONFLICT (sha256(name)) DO NOTHING
