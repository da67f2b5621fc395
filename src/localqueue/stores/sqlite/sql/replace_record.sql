UPDATE lq_records SET value = :value, version = :version, updated_at = :now
 WHERE namespace = :namespace AND kind = :kind AND key = :key AND version = :expect
