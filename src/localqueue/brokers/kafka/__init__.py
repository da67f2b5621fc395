"""Apache Kafka: a topic for each queue, read by one consumer group.

`kafka://host:9092`, or several `host:port` with commas between them. `kafka://user:password@host:9093` logs in by
SASL over TLS, where the address does not say otherwise. Behind a `?` may stand

- `group` (`localqueue.{queue}`), the consumer group; `{queue}` stands for the topic, so that no topic disturbs
  another
- `partitions` (4) and `replication` (-1, which is what the cluster has by default), of the topics that `ensure` makes
- `session_timeout` (10), after how many seconds of silence the partitions of a process that died go to another
- `handover` (30), for how many seconds a partition that is to go to another process is kept while deliveries of it
  are not settled
- `timeout` (15), for how many seconds an answer is waited for
- and settings of librdkafka by their own names, such as `security.protocol=SASL_PLAINTEXT`.

A queue `jobs` is the topic `jobs`, its dead letters are in `jobs.dead`. A message is a record: its headers are those
of the record, its key the record's key, which decides the partition as it does in Kafka's own clients. So any
producer sends and any consumer of the group receives.

What Kafka can not do is refused: delayed sends, priorities, duplicates. And it differs from other brokers in these:

- A process has its partitions to itself while it lives and is heard of. What it has received is its own for so long;
  `extend` only says so. A partition that goes to another process is kept until what was received of it is settled, or
  `handover` is over; then an `ack` of it is refused, because the other process receives it again.
- Kafka remembers one offset for each partition. It is committed behind the first message that is not done, before
  `ack` returns. Messages behind it that are done are written into the metadata of that offset, as many as fit into
  4,000 characters; those that do not fit come again after a crash.
- A message that is given back comes again in the same process, before later ones of its partition: while its delay
  lasts, the partition waits. How often it was delivered is counted in that process only.
- A dead letter is copied to the other topic before the message is done, so a crash between the two leaves both.

Nothing is fetched for partitions while what was received of them waits to be taken (`pause`). A receiver that joins
the group is given its partitions after some tenths of a second; `receive` does not call a queue empty before that.
"""

from localqueue.brokers.kafka.broker import KafkaBroker

__all__ = ["KafkaBroker"]
