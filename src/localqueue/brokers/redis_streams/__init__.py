"""Redis Streams: a stream for each queue, read by one consumer group.

`redis+stream://user:password@host:6379/0`, or `rediss+stream://` over TLS, for a server of version 7.0 or newer.
Behind a `?` may stand `group` (`localqueue`), the consumer group; `claim_after` (60), for how many seconds an entry
may stay pending with a consumer that knows of no leases before it is delivered to another; and what redis-py takes
there.

A queue `jobs` is the stream `jobs`. An entry has the field `body`, and `headers` (JSON), `id` and `key` where it has
them, so a plain XADD sends and a plain XREADGROUP of the same group receives. Of an entry that another program sent,
the fields that are not these are headers; one without a `body` is its fields as JSON. What is acked is removed from
the stream, so there should be no second group on it. What else belongs to a queue stands under `{jobs}:...`, in the
same hash slot: see `lua/base.lua`.

Leases are kept beside the group, in the time of the server: an entry may be delivered again when its lease has run
out or it was given back, also by another process, and a receipt from before then settles nothing. Whoever waits is
told by a blocking read, and looks by itself when a delay or a lease is over.

What a confirmed message survives is the server's setting (`appendonly`, `appendfsync`), which is not checked here. A
user of the server needs `+@stream +@sortedset +exists +del +time +fcall +fcall_ro +function|load +ping +select`, and
the keys `~<queue>` and `~{<queue>}:*` of its queues.
"""

from localqueue.brokers.redis_streams.broker import RedisStreamsBroker

__all__ = ["RedisStreamsBroker"]
