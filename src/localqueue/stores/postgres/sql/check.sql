-- What must not be found, whatever happened: (what is wrong, an example), a few of each.
WITH ours AS MATERIALIZED (SELECT id FROM localqueue.lq_queues WHERE namespace = $1::int)
(SELECT 'an ordering key has two messages in delivery', m.queue || ':' || encode(m.ordering_key, 'escape')
   FROM localqueue.lq_messages AS m WHERE m.queue IN (SELECT id FROM ours) AND m.ordering_key IS NOT NULL AND m.state <= 2
  GROUP BY m.queue, m.ordering_key HAVING count(*) > 1 LIMIT 5)
UNION ALL
(SELECT 'a message is blocked behind an ordering key that nobody holds', b.key::text
   FROM localqueue.lq_messages AS b
  WHERE b.queue IN (SELECT id FROM ours) AND b.state = 4
    AND NOT EXISTS (SELECT 1 FROM localqueue.lq_messages AS h
                     WHERE h.queue = b.queue AND localqueue.lq_key(h.ordering_key) = localqueue.lq_key(b.ordering_key) AND h.state <= 2)
  LIMIT 5)
UNION ALL
(SELECT 'a waiting message does not count its dependencies', m.key::text
   FROM localqueue.lq_messages AS m
  WHERE m.queue IN (SELECT id FROM ours) AND m.state = 3
    AND m.waiting_on <> (SELECT count(*) FROM localqueue.lq_dependencies AS d WHERE d.dependent = m.key)
  LIMIT 5)
UNION ALL
(SELECT 'a message waits for one that is gone', m.key::text
   FROM localqueue.lq_messages AS m
  WHERE m.queue IN (SELECT id FROM ours) AND m.state = 3
    AND EXISTS (SELECT 1 FROM localqueue.lq_dependencies AS d WHERE d.dependent = m.key
                   AND NOT EXISTS (SELECT 1 FROM localqueue.lq_messages AS u WHERE u.key = d.upstream)
                   AND NOT EXISTS (SELECT 1 FROM localqueue.lq_removed AS r WHERE r.key = d.upstream))
  LIMIT 5)
UNION ALL
(SELECT 'a message would miss its timer', m.key::text
   FROM localqueue.lq_messages AS m
  WHERE m.queue IN (SELECT id FROM ours) AND m.due_at IS DISTINCT FROM CASE
        WHEN m.state = 2 THEN m.leased_until WHEN m.state = 1 THEN least(m.available_at, m.expires_at)
        WHEN m.state IN (0, 3, 4) THEN m.expires_at END
  LIMIT 5)
UNION ALL
(SELECT 'a message has a lease and is not inflight, or the other way round', m.key::text
   FROM localqueue.lq_messages AS m
  WHERE m.queue IN (SELECT id FROM ours) AND (m.state = 2) <> (m.leased_until IS NOT NULL AND m.leased_at IS NOT NULL)
  LIMIT 5)
UNION ALL
(SELECT 'a message is in a state that does not fit the time it ended', m.key::text
   FROM localqueue.lq_messages AS m
  WHERE m.queue IN (SELECT id FROM ours) AND (m.state >= 5) <> (m.ended_at IS NOT NULL)
  LIMIT 5)
UNION ALL
(SELECT 'the journal has an entry beyond its last number', e.seq::text
   FROM localqueue.lq_journal AS e JOIN localqueue.lq_journals AS j ON j.namespace = e.namespace
  WHERE e.namespace = $1::int AND e.seq > j.last LIMIT 5)
