INSERT OR IGNORE INTO lq_line (queue, part, rank, position, key, count, until)
VALUES (?1, 0, 0, 0, 0, 0, 9e999), (?1, 3, 0, 0, 0, 0, NULL)
