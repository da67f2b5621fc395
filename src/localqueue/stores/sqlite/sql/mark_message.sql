-- Of a leased message: its state, its attempts and its times are those of the lease.
UPDATE lq_messages SET waiting_on = ?2, dependents = ?3 WHERE key = ?1
