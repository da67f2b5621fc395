DROP TRIGGER IF EXISTS lq_journal_put;
DROP TRIGGER IF EXISTS lq_journal_claimed;
DROP TRIGGER IF EXISTS lq_journal_leased;
DROP TRIGGER IF EXISTS lq_journal_renewed;
DROP TRIGGER IF EXISTS lq_journal_gone;
DROP TRIGGER IF EXISTS lq_journal_attempt;
DROP TRIGGER IF EXISTS lq_journal_ended;
DROP TRIGGER IF EXISTS lq_journal_kept;
