INSERT OR IGNORE INTO lq_line (queue, part, rank, position, key, count, until, since, most)
VALUES (?1, 0, 0, 0, 0, 0, 9e999, NULL, NULL), (?1, 3, 0, 0, 0, 0, NULL, 0, 0)
