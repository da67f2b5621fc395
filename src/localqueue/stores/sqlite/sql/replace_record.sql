UPDATE lq_records SET value = ?4, version = ?5, updated_at = ?6
 WHERE namespace = ?1 AND kind = ?2 AND key = ?3 AND version = ?7
