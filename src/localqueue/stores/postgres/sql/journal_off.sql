DROP TRIGGER IF EXISTS lq_journal_put ON localqueue.lq_messages;
DROP TRIGGER IF EXISTS lq_journal_changed ON localqueue.lq_messages;
DROP TRIGGER IF EXISTS lq_journal_gone ON localqueue.lq_messages;
DROP TRIGGER IF EXISTS lq_journal_attempt ON localqueue.lq_attempts
