SELECT id, secret FROM localqueue.lq_namespaces WHERE sha256(name) = sha256($1::bytea)
