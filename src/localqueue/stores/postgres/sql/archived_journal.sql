SELECT enabled, last, keep_seconds, keep_events FROM localqueue.lq_journals WHERE namespace = $1::int
