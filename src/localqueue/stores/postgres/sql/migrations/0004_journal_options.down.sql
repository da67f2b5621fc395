\i 0003_functions.sql

ALTER TABLE localqueue.lq_journal_new DROP COLUMN options;
ALTER TABLE localqueue.lq_journal DROP COLUMN options;
