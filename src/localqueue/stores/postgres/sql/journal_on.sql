CREATE OR REPLACE TRIGGER lq_journal_put AFTER INSERT ON localqueue.lq_messages
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION localqueue.lq_journal_put();
CREATE OR REPLACE TRIGGER lq_journal_changed AFTER UPDATE ON localqueue.lq_messages
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT
EXECUTE FUNCTION localqueue.lq_journal_changed();
CREATE OR REPLACE TRIGGER lq_journal_gone AFTER DELETE ON localqueue.lq_messages
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION localqueue.lq_journal_gone();
CREATE OR REPLACE TRIGGER lq_journal_attempt AFTER INSERT ON localqueue.lq_attempts
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION localqueue.lq_journal_attempt()
