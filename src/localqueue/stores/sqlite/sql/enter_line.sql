INSERT INTO line (queue, part, rank, position, key, count) VALUES (?, 2, ?, ?, ?, ?)
