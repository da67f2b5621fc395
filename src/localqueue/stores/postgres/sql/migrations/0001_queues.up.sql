-- States: 0 ready, 1 delayed, 2 inflight, 3 waiting, 4 blocked, 5 dead, 6 expired, 7 cancelled.
--
-- Names and keys are the UTF-8 of a user's text as bytea: text can not hold a NUL. An index on one is an index on its
-- digest, because an index entry can not be longer than a third of a page.
-- Times are seconds since the epoch by the clock of the server.

CREATE TABLE localqueue.lq_namespaces (
  id     int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  secret bigint NOT NULL,                   -- checks message ids, see localqueue.ids
  name   bytea NOT NULL
);
CREATE UNIQUE INDEX lq_namespaces_name ON localqueue.lq_namespaces (sha256(name));

CREATE TABLE localqueue.lq_queues (
  id            int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace     int NOT NULL,
  name          bytea NOT NULL,
  paused_at     float8,
  room_wanted   float8,                     -- until then somebody waits for room, and wants to be told of a lease
  dropped       bigint NOT NULL DEFAULT 0,
  subscriptions bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX lq_queues_name ON localqueue.lq_queues (namespace, sha256(name));

-- A message from put to ack. A put writes the row and two index entries, a lease moves it out of the line and into
-- the timers, an ack deletes it. The rows come and go all day, so dead ones are cleared early and without pause.
CREATE TABLE localqueue.lq_messages (
  key          bigint PRIMARY KEY,          -- the first half of the message id
  priority     bigint NOT NULL DEFAULT 0,
  created_at   float8 NOT NULL,
  available_at float8 NOT NULL,
  due_at       float8,                      -- next time the state changes by itself
  leased_at    float8,
  leased_until float8,
  expires_at   float8,
  failed_at    float8,
  ended_at     float8,                      -- when it became dead, expired or cancelled
  queue        int NOT NULL,
  attempts     int NOT NULL DEFAULT 0,      -- deliveries; of an inflight message also the token of its lease
  most         int,                         -- how many attempts its lease allows
  forgiven     int NOT NULL DEFAULT 0,      -- attempts that are off the budget
  history      int NOT NULL DEFAULT 0,      -- how many entries its history has had
  renewals     int NOT NULL DEFAULT 0,
  waiting_on   int NOT NULL DEFAULT 0,
  run          int,
  state        smallint NOT NULL,
  dependents   bool NOT NULL DEFAULT false, -- some message waits, or waited, for this one
  is_text      bool NOT NULL,
  payload      bytea NOT NULL,
  codec        text,                        -- NULL: JSON
  headers      bytea,
  ordering_key bytea,
  dedupe_key   bytea,
  leased_by    bytea,
  last_error   text
) WITH (
  autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
  autovacuum_vacuum_insert_scale_factor = 0.1, autovacuum_analyze_scale_factor = 0.05
);

-- The line of each queue, timers, and what the rarer features look up. Only the first two exist for a plain message.
CREATE INDEX lq_messages_line ON localqueue.lq_messages (queue, priority DESC, available_at, key) WHERE state = 0;
CREATE INDEX lq_messages_due ON localqueue.lq_messages (queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX lq_messages_waiting ON localqueue.lq_messages (queue) WHERE state = 3;
CREATE INDEX lq_messages_ended ON localqueue.lq_messages (queue, state, ended_at, key) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX lq_messages_dedupe ON localqueue.lq_messages (queue, sha256(dedupe_key))
  WHERE dedupe_key IS NOT NULL AND ended_at IS NULL;
CREATE INDEX lq_messages_ordering ON localqueue.lq_messages (queue, sha256(ordering_key), state, key)
  WHERE ordering_key IS NOT NULL AND ended_at IS NULL;
CREATE INDEX lq_messages_run ON localqueue.lq_messages (run, key) WHERE run IS NOT NULL;

CREATE TABLE localqueue.lq_dependencies (
  upstream  bigint NOT NULL,
  dependent bigint NOT NULL,
  PRIMARY KEY (upstream, dependent)
);
CREATE INDEX lq_dependencies_dependent ON localqueue.lq_dependencies (dependent);

-- Finished attempts of messages that were released, expired or dead-lettered: the happy path writes none.
CREATE TABLE localqueue.lq_attempts (
  message   bigint NOT NULL,
  n         int NOT NULL,
  attempt   int NOT NULL,
  event     text NOT NULL,
  at        float8 NOT NULL,
  leased_at float8,
  leased_by bytea,
  error     text,
  PRIMARY KEY (message, n)
);

-- Messages that are removed without being acked, so that nothing can come after them by mistake. Written before the
-- message goes; `why` is the type of the journal's entry.
CREATE TABLE localqueue.lq_removed (
  key       bigint PRIMARY KEY,
  namespace int NOT NULL,
  why       smallint NOT NULL
);
CREATE INDEX lq_removed_namespace ON localqueue.lq_removed (namespace, key);

CREATE TABLE localqueue.lq_runs (
  id           int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  namespace    int NOT NULL,
  name         bytea NOT NULL,
  total        bigint NOT NULL DEFAULT 0,
  done         bigint NOT NULL DEFAULT 0,
  cancelled_at float8
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX lq_runs_name ON localqueue.lq_runs (namespace, sha256(name));

CREATE TABLE localqueue.lq_workers (
  queue     int NOT NULL,
  worker    bytea NOT NULL,
  leases    bigint NOT NULL DEFAULT 0,
  last_seen float8,
  paused_at float8
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX lq_workers_worker ON localqueue.lq_workers (queue, sha256(worker));

CREATE TABLE localqueue.lq_subscriptions (
  topic      int NOT NULL,
  n          bigint NOT NULL,
  subscriber bytea NOT NULL
);
CREATE UNIQUE INDEX lq_subscriptions_subscriber ON localqueue.lq_subscriptions (topic, sha256(subscriber));

-- The index finds one record and lists those of a kind in the order of their keys; only what follows the first 200
-- bytes of a key is sorted.
CREATE TABLE localqueue.lq_records (
  namespace  int NOT NULL,
  kind       bytea NOT NULL,
  key        bytea NOT NULL,
  value      bytea NOT NULL,
  version    bigint NOT NULL,
  updated_at float8 NOT NULL
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX lq_records_key
  ON localqueue.lq_records (namespace, sha256(kind), substring(key FROM 1 FOR 200), sha256(key));

-- The journal. Its triggers exist while some namespace has switched it on (see journal_on.sql).
CREATE TABLE localqueue.lq_journals (
  namespace    int PRIMARY KEY,
  enabled      bool NOT NULL,
  last         bigint NOT NULL DEFAULT 0,
  keep_seconds float8,
  keep_events  bigint
) WITH (fillfactor = 50);

CREATE TABLE localqueue.lq_journal (
  namespace int NOT NULL,
  queue     int NOT NULL,
  seq       bigint NOT NULL,
  at        float8 NOT NULL,
  key       bigint NOT NULL,
  attempt   int,
  type      smallint NOT NULL,              -- see localqueue.events.journal
  is_text   bool,
  worker    bytea,
  error     text,
  payload   bytea,
  codec     text,
  PRIMARY KEY (namespace, seq)
);
CREATE INDEX lq_journal_queue ON localqueue.lq_journal (queue, seq);

-- Entries of the running transaction, which get their numbers when it commits. Nothing in it outlives a transaction, so
-- it needs no write-ahead log. A row of type 0 has the rest of its transaction numbered.
CREATE UNLOGGED TABLE localqueue.lq_journal_new (
  xid       xid8 NOT NULL DEFAULT pg_current_xact_id(),
  n         bigint GENERATED ALWAYS AS IDENTITY,
  namespace int NOT NULL,
  queue     int NOT NULL,
  at        float8 NOT NULL,
  key       bigint NOT NULL,
  attempt   int,
  type      smallint NOT NULL,
  is_text   bool,
  worker    bytea,
  error     text,
  payload   bytea,
  codec     text,
  PRIMARY KEY (xid, n)
) WITH (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
