CREATE TABLE IF NOT EXISTS localqueue.lq_migrations
  (version int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
