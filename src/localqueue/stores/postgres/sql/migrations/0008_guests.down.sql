DROP TRIGGER lq_journal_guests ON localqueue.lq_journal_new;
DROP TABLE localqueue.lq_guests;
DROP FUNCTION localqueue.lq_guests_commit;
DROP FUNCTION localqueue.lq_begin(float8, int[], bool[], int[], text, text);
ALTER FUNCTION localqueue.lq_journal_commit RESET search_path;
