-- Options of an enqueued message that were not left at their defaults, as JSON. Entries from before have none.
ALTER TABLE lq_journal ADD COLUMN options TEXT;
