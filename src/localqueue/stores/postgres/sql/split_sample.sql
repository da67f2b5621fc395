-- The messages of a queue on about so many pages of the table, which are the same ones as long as the table has them.
SELECT key FROM localqueue.lq_messages
  TABLESAMPLE SYSTEM (least(100, 100 * $2::float8 * current_setting('block_size')::int
                                 / greatest(1, pg_relation_size('localqueue.lq_messages')))) REPEATABLE (0)
 WHERE queue = $1::int
