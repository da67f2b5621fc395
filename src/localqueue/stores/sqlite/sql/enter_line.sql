INSERT INTO line (queue, part, rank, position, key, count, until) VALUES (?, 2, ?, ?, ?, ?, ?)
