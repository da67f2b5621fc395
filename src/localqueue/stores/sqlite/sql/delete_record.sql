DELETE FROM lq_records
 WHERE namespace = :namespace AND kind = :kind AND key = :key AND (:expect IS NULL OR version = :expect)
