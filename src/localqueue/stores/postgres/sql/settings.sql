SELECT pg_is_in_recovery(), current_setting('fsync'), current_setting('synchronous_commit'),
       current_setting('plan_cache_mode') = 'force_generic_plan'
