-- Current leases by worker: how many, the first of them, and the sum of their beginnings.
SELECT by, count(*), min(since), sum(since) FROM lq_line WHERE queue = ? AND part = 1 AND until > ? GROUP BY by
