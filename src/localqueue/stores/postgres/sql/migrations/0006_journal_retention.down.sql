\i 0004_journal_commit.sql
