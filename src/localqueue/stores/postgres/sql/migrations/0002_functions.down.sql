DROP FUNCTION localqueue.lq_step;
DROP FUNCTION localqueue.lq_claim;
DROP FUNCTION localqueue.lq_write_record;
DROP FUNCTION localqueue.lq_history;
DROP FUNCTION localqueue.lq_begin;
DROP FUNCTION localqueue.lq_now;
