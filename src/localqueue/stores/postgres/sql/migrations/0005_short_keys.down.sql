DROP INDEX localqueue.lq_messages_dedupe, localqueue.lq_messages_ordering;
CREATE UNIQUE INDEX lq_messages_dedupe ON localqueue.lq_messages (queue, sha256(dedupe_key))
  WHERE dedupe_key IS NOT NULL AND ended_at IS NULL;
CREATE INDEX lq_messages_ordering ON localqueue.lq_messages (queue, sha256(ordering_key), state, key)
  WHERE ordering_key IS NOT NULL AND ended_at IS NULL;
DROP FUNCTION localqueue.lq_key;
