DROP TRIGGER IF EXISTS journal_put;
DROP TRIGGER IF EXISTS journal_claimed;
DROP TRIGGER IF EXISTS journal_leased;
DROP TRIGGER IF EXISTS journal_renewed;
DROP TRIGGER IF EXISTS journal_gone;
DROP TRIGGER IF EXISTS journal_attempt;
DROP TRIGGER IF EXISTS journal_ended;
DROP TRIGGER IF EXISTS journal_kept;
