DROP TABLE localqueue.lq_journal_new, localqueue.lq_journal, localqueue.lq_journals, localqueue.lq_records,
  localqueue.lq_subscriptions, localqueue.lq_workers, localqueue.lq_runs, localqueue.lq_removed,
  localqueue.lq_attempts, localqueue.lq_dependencies, localqueue.lq_messages, localqueue.lq_queues,
  localqueue.lq_namespaces;
