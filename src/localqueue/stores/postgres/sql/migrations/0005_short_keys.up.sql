-- What the indexes have of a key is the key itself where that is short: keys that are put together then lie together, and
-- nothing is computed for each. Of a long one it is the beginning and the digest, which no short key is as long as.
CREATE FUNCTION localqueue.lq_key(k bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN octet_length(k) <= 200 THEN k ELSE substring(k FROM 1 FOR 200) || sha256(k) END
$$;

DROP INDEX localqueue.lq_messages_dedupe, localqueue.lq_messages_ordering;
CREATE UNIQUE INDEX lq_messages_dedupe ON localqueue.lq_messages (queue, localqueue.lq_key(dedupe_key))
  WHERE dedupe_key IS NOT NULL AND ended_at IS NULL;
CREATE INDEX lq_messages_ordering ON localqueue.lq_messages (queue, localqueue.lq_key(ordering_key), state, key)
  WHERE ordering_key IS NOT NULL AND ended_at IS NULL;
