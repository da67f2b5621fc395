SELECT (SELECT e.seq FROM localqueue.lq_journal AS e WHERE e.namespace = $1::int ORDER BY e.seq LIMIT 1), j.last
  FROM localqueue.lq_journals AS j
 WHERE j.namespace = $1::int
