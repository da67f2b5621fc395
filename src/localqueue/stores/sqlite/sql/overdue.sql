-- Due messages by state, whether their time to live is over, and whether they have used up their attempts.
SELECT state, coalesce(expires_at <= ?2, 0), 0, count(*)
  FROM lq_messages WHERE queue = ?1 AND due_at <= ?2 GROUP BY 1, 2
UNION ALL
SELECT 2, coalesce(m.expires_at <= ?2, 0), coalesce(l.count - m.forgiven >= l.most, 0), count(*)
  FROM lq_line AS l JOIN lq_messages AS m ON m.key = l.key
 WHERE l.queue = ?1 AND l.part = 1 AND l.until <= ?2 GROUP BY 2, 3
