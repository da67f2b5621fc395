-- The tail row of a line keeps what comes before everything new: most = the newest key the queue has had, since = the
-- position that no message is behind. So order is the order of the commits, whatever the clocks say.
DROP TRIGGER lq_message_put;

CREATE TRIGGER lq_message_put INSTEAD OF INSERT ON lq_putting BEGIN
  UPDATE lq_line
     SET count = count + 1, since = NEW.created_at,
         most = CASE WHEN most < NEW.key AND since <= NEW.created_at THEN NEW.key
                     ELSE RAISE(ABORT, 'late') END  -- what is to be done then is not for a trigger to decide
   WHERE queue = NEW.queue AND part = 3 AND rank = 0 AND position = 0 AND key = 0;
  INSERT INTO lq_line (queue, part, rank, position, key, count)
  VALUES (NEW.queue, 2, -NEW.priority, NEW.created_at, NEW.key, 0);
  INSERT INTO lq_messages (key, queue, state, priority, created_at, payload, codec, headers)
  VALUES (NEW.key, NEW.queue, 0, NEW.priority, NEW.created_at, NEW.payload, NEW.codec, NEW.headers);
END;

UPDATE lq_line SET most = 0, since = 0 WHERE part = 3;

WITH newest (queue, key) AS MATERIALIZED (SELECT queue, max(key) FROM lq_messages GROUP BY queue)
UPDATE lq_line
   SET most = newest.key,
       since = ifnull((SELECT max(l.position) FROM lq_line AS l WHERE l.queue = newest.queue AND l.part = 2), 0)
  FROM newest WHERE lq_line.queue = newest.queue AND lq_line.part = 3;
