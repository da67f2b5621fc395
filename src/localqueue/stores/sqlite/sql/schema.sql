-- Schema version 1. States: 0 ready, 1 delayed, 2 inflight, 3 waiting, 4 blocked, 5 dead, 6 expired, 7 cancelled.

CREATE TABLE lq_namespaces (
  id     INTEGER PRIMARY KEY,
  name   TEXT NOT NULL UNIQUE,
  secret INTEGER NOT NULL               -- checks message ids, see localqueue.ids
);

CREATE TABLE lq_queues (
  id            INTEGER PRIMARY KEY,
  namespace     INTEGER NOT NULL,
  name          TEXT NOT NULL,
  delayed       INTEGER NOT NULL DEFAULT 0,
  waiting       INTEGER NOT NULL DEFAULT 0,
  blocked       INTEGER NOT NULL DEFAULT 0,
  dead          INTEGER NOT NULL DEFAULT 0,
  expired       INTEGER NOT NULL DEFAULT 0,
  cancelled     INTEGER NOT NULL DEFAULT 0,
  dropped       INTEGER NOT NULL DEFAULT 0,
  subscriptions INTEGER NOT NULL DEFAULT 0,
  UNIQUE (namespace, name)
);

-- A message from put to ack. A row is written when it is put, when something goes wrong, and when it is removed; being
-- leased does not touch it.
CREATE TABLE lq_messages (
  key          INTEGER PRIMARY KEY,         -- the first half of the message id
  queue        INTEGER NOT NULL,
  state        INTEGER NOT NULL,            -- 0: in line, see below
  priority     INTEGER NOT NULL,
  attempts     INTEGER NOT NULL DEFAULT 0,  -- deliveries before the current lease
  created_at   REAL NOT NULL,
  available_at REAL,                        -- NULL: when it was created
  payload      NOT NULL,
  codec        TEXT,                        -- NULL: JSON
  headers      TEXT,
  due_at       REAL,                        -- next time the state changes by itself, other than by a lease
  forgiven     INTEGER NOT NULL DEFAULT 0,  -- attempts that a requeue took off the budget
  history      INTEGER NOT NULL DEFAULT 0,  -- how many entries its history has had
  dependents   INTEGER NOT NULL DEFAULT 0,  -- 1: some message waits for this one
  waiting_on   INTEGER NOT NULL DEFAULT 0,
  run          INTEGER,
  ordering_key TEXT,
  dedupe_key   TEXT,
  expires_at   REAL,
  last_error   TEXT,
  failed_at    REAL,
  ended_at     REAL                         -- when it became dead, expired or cancelled
);

CREATE INDEX lq_messages_due ON lq_messages (queue, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX lq_messages_ended ON lq_messages (queue, state, ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX lq_messages_dedupe ON lq_messages (queue, dedupe_key) WHERE dedupe_key IS NOT NULL AND ended_at IS NULL;
CREATE INDEX lq_messages_ordering ON lq_messages (queue, ordering_key, state) WHERE ordering_key IS NOT NULL;
CREATE INDEX lq_messages_run ON lq_messages (run) WHERE run IS NOT NULL;

-- The line of each queue, in the order of its parts:
--   0  the head row: count = messages that left the ready part, until = lower bound of the next timer,
--      since = when the queue was paused, most = how often a worker of it was paused or resumed (NULL: never)
--   1  a leased message: count = its token, until and since = end and start of the lease, by = the worker,
--      most = how many attempts it may have
--   2  a ready message: rank = minus its priority, position = when it became available, count = its attempts,
--      until = when it expires
--   3  the tail row: count = messages that ever entered the ready part; see also migrations/0003_commit_order.sql
-- Head, leases and the next ready messages are neighbours in one B-tree, as are the last ready message and the tail row.
-- A put writes one page here and one of messages, a lease one page, an ack one here and one of messages; and
-- the number of ready messages is tail.count - head.count, whatever the backlog.
CREATE TABLE lq_line (
  queue    INTEGER NOT NULL,
  part     INTEGER NOT NULL,
  rank     INTEGER NOT NULL,
  position REAL NOT NULL,
  key      INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  until    REAL,
  since    REAL,
  by       TEXT,
  most     INTEGER,
  PRIMARY KEY (queue, part, rank, position, key)
) WITHOUT ROWID;

-- The three everyday writes are one statement each, and so one call and one transaction:
-- an insert into `putting`, an update of the first ready row of `line` to a lease, and a delete from `messages`.
CREATE VIEW lq_putting AS SELECT key, queue, priority, created_at, payload, codec, headers FROM lq_messages;

CREATE TRIGGER lq_message_put INSTEAD OF INSERT ON lq_putting BEGIN
  INSERT INTO lq_messages (key, queue, state, priority, created_at, payload, codec, headers)
  VALUES (NEW.key, NEW.queue, 0, NEW.priority, NEW.created_at, NEW.payload, NEW.codec, NEW.headers);
  INSERT INTO lq_line (queue, part, rank, position, key, count)
  VALUES (NEW.queue, 2, -NEW.priority, NEW.created_at, NEW.key, 0);
  UPDATE lq_line SET count = count + 1 WHERE queue = NEW.queue AND part = 3 AND rank = 0 AND position = 0 AND key = 0;
END;

CREATE TRIGGER lq_message_claimed AFTER UPDATE OF part ON lq_line BEGIN
  UPDATE lq_line SET count = count + 1, until = min(until, NEW.until)
   WHERE queue = NEW.queue AND part = 0 AND rank = 0 AND position = 0 AND key = 0;
END;

CREATE TRIGGER lq_message_removed AFTER DELETE ON lq_messages BEGIN
  DELETE FROM lq_line WHERE queue = OLD.queue AND part = 1 AND rank = 0 AND position = 0 AND key = OLD.key;
END;

CREATE TABLE lq_dependencies (
  upstream  INTEGER NOT NULL,
  dependent INTEGER NOT NULL,
  PRIMARY KEY (upstream, dependent)
) WITHOUT ROWID;

CREATE INDEX lq_dependencies_dependent ON lq_dependencies (dependent);

-- Finished attempts of messages that were released, expired or dead-lettered: the happy path writes none.
CREATE TABLE lq_attempts (
  message   INTEGER NOT NULL,
  n         INTEGER NOT NULL,
  attempt   INTEGER NOT NULL,
  event     TEXT NOT NULL,
  at        REAL NOT NULL,
  leased_at REAL,
  leased_by TEXT,
  error     TEXT,
  PRIMARY KEY (message, n)
) WITHOUT ROWID;

-- Messages that are removed without being acked, so that nothing can come after them by mistake. Written before the
-- message goes; `why` is the type of the journal's entry.
CREATE TABLE lq_removed (
  key INTEGER PRIMARY KEY,
  why INTEGER NOT NULL
);

CREATE TABLE lq_runs (
  id           INTEGER PRIMARY KEY,
  namespace    INTEGER NOT NULL,
  name         TEXT NOT NULL,
  total        INTEGER NOT NULL DEFAULT 0,
  done         INTEGER NOT NULL DEFAULT 0,
  cancelled_at REAL,
  UNIQUE (namespace, name)
);

CREATE TABLE lq_workers (
  queue     INTEGER NOT NULL,
  worker    TEXT NOT NULL,
  leases    INTEGER NOT NULL DEFAULT 0,
  last_seen REAL,
  paused_at REAL,                       -- when an operator told it to take no more from this queue
  PRIMARY KEY (queue, worker)
) WITHOUT ROWID;

CREATE TABLE lq_subscriptions (
  topic      INTEGER NOT NULL,
  subscriber TEXT NOT NULL,
  n          INTEGER NOT NULL,
  PRIMARY KEY (topic, subscriber)
) WITHOUT ROWID;

CREATE TABLE lq_records (
  namespace  INTEGER NOT NULL,
  kind       TEXT NOT NULL,
  key        TEXT NOT NULL,
  value      BLOB NOT NULL,
  version    INTEGER NOT NULL,
  updated_at REAL NOT NULL,
  PRIMARY KEY (namespace, kind, key)
) WITHOUT ROWID;

-- The journal, which the triggers of `journal_on.sql` write while some namespace has switched it on. The upper bits of
-- an entry's id are its namespace, so that each has a range of its own; the lower 48 are what the port calls `seq`.
CREATE TABLE lq_journals (
  namespace    INTEGER PRIMARY KEY,
  enabled      INTEGER NOT NULL,
  last         INTEGER NOT NULL,            -- no entry up to this id is written any more
  keep_seconds REAL,
  keep_events  INTEGER
);

CREATE TABLE lq_journal (
  id      INTEGER PRIMARY KEY,
  queue   INTEGER NOT NULL,
  type    INTEGER NOT NULL,                 -- see localqueue.events.journal
  at      REAL NOT NULL,
  key     INTEGER NOT NULL,
  attempt INTEGER,
  worker  TEXT,
  error   TEXT,
  payload,
  codec   TEXT
);

-- Where the next entry about a queue goes: no row when its namespace keeps no journal.
CREATE VIEW lq_next_entry AS
SELECT q.id AS queue,
       max(j.last, coalesce((SELECT max(e.id) FROM lq_journal AS e
                              WHERE e.id >= j.namespace << 48 AND e.id < (j.namespace + 1) << 48), 0)) + 1 AS id
  FROM lq_queues AS q JOIN lq_journals AS j ON j.namespace = q.namespace AND j.enabled;
