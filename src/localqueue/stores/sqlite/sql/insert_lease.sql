INSERT INTO line (queue, part, rank, position, key, count, until, since, by, most) VALUES (?, 1, 0, 0, ?, ?, ?, ?, ?, ?)
