"""The consumers of a store, seen and steered from outside: who claims, what they hold, how far they are behind.

None of it needs Spark, nor the query of a consumer. A query that still runs is fenced first: from then on it can
neither claim nor settle, and stops with an error. Then its claims are closed, and what they held goes back to the
queue; whoever is cut off in between leaves leases that the next release, or the next driver, gives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import unquote

from localqueue.errors import QueueError
from localqueue.spark.record_family import records_under
from localqueue.spark.streams.claim_lease import held_by, returned
from localqueue.spark.streams.consumer_record import (
    CLAIMS,
    CONSUMERS,
    ORIGINS,
    PRESENCE,
    VERDICTS,
    Consumer,
    ConsumerRecord,
    chunk_keys,
    consumer_key,
    worker_name,
)
from localqueue.stores.port import QueueStore, Record, RecordWrite

#: Seconds after which a driver that gave no sign of life counts as gone: it gives one every 15.
SILENCE = 60.0


class UnknownConsumer(QueueError, LookupError):
    """There is no consumer of that name."""


@dataclass(frozen=True, kw_only=True)
class ConsumerStatus:
    """A consumer as it is now. Times are seconds since the epoch, on the clock of the store.

    `settled` is the claim that a checkpoint of it is at, or behind by one; `claim` the last one there is. The messages
    of the claims between are `held`, since `claimed_at`, and Spark has begun them `runs` times at most. `lag_rows` and
    `lag_seconds` are what waits in its queue, and how long the oldest of it has; None where the messages are at a
    broker. `driver` is the host and process that has the consumer, last seen at `seen_at`; None of one that was
    released.
    """

    queue: str
    consumer: str
    running: bool
    driver: str | None
    seen_at: float | None
    settled: int
    claim: int
    held: int
    claimed_at: float | None
    runs: int
    lag_rows: int | None
    lag_seconds: float | None
    broker: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def consumers(store: QueueStore, queue: str | None = None) -> list[ConsumerStatus]:
    """The consumers of a queue, or of all queues, by name. Reads only."""
    found = [(record, Consumer.of(record.value)) for record in records_under(store, CONSUMERS, "")]
    followers: dict[str, int] = {}
    for record, state in found:
        of = _names(record.key)[0]
        followers[of] = followers.get(of, 0) + sum(one.followers for one in state.open.values())
    queues = {_names(record.key)[0] for record, state in found if not state.broker}
    lags = {one: _lag(store, one, followers[one]) for one in queues if queue is None or one == queue}
    now = store.now()
    statuses = [_status(store, record, state, lags, now) for record, state in found]
    return [one for one in statuses if queue is None or one.queue == queue]


def consumer(store: QueueStore, queue: str, name: str) -> ConsumerStatus:
    """One consumer; UnknownConsumer names those there are."""
    for one in consumers(store, queue):
        if one.consumer == name:
            return one
    raise _unknown(store, queue, name)


def release_consumer(store: QueueStore, queue: str, name: str) -> int:
    """Give back what a consumer holds; how many messages. Others, and plain workers, can have them at once.

    For a consumer whose query will not come back soon: otherwise it holds its claim for `claimTimeout`. If it does come
    back it goes on, with a batch that is empty in the place of the one it held. A sink that has committed that batch,
    when its messages were not settled yet, gets them once more from whoever has them next.

    At a broker the messages are in the hands of the broker, which delivers them again when their leases end.
    """
    record = _taken_over(store, queue, name)
    state = record.state
    opened = {claim: count for claim, count in state.chunks.items() if claim > state.settled}
    after = replace(state, owner="", driver="", chunks={**state.chunks, **dict.fromkeys(opened, 0)}, open={})
    return _give_back(store, record, queue, name, after, _gone(record.key, opened))


def release_consumers(store: QueueStore, *, older_than: float, queue: str | None = None) -> dict[ConsumerStatus, int]:
    """Release every consumer whose driver gave no sign of life for so many seconds; how many messages each gave back.

    Drivers give one every 15 seconds. One that was released and not started since is left out.
    """
    limit = store.now() - older_than
    silent = [one for one in consumers(store, queue) if one.seen_at is not None and one.seen_at <= limit]
    return {one: release_consumer(store, one.queue, one.consumer) for one in silent}


def reset_consumer(store: QueueStore, queue: str, name: str, *, to: int = 0) -> int:
    """Give back what a consumer holds, and let its claims be counted on from `to`; how many messages.

    For a checkpoint that does not fit the consumer any more (it was restored, or is another one): `to` is the claim it
    is at. Nothing can be read again that was settled; to have messages once more, `replay` them from the journal. What
    was acked at a broker that may deliver it again all the same (RabbitMQ, SQS) is forgotten, and then becomes a row
    again.
    """
    if isinstance(to, bool) or not isinstance(to, int) or to < 0:
        raise ValueError(f"to must be the number of a claim, 0 or more, not {to!r}")
    return _reset(store, _taken_over(store, queue, name), queue, name, to)


def forget_consumer(store: QueueStore, queue: str, name: str) -> int:
    """Give back what a consumer holds, and remove everything that is known of it; how many messages it gave back.

    A query that comes back with its checkpoint is told that its claims are gone.
    """
    record = _taken_over(store, queue, name)
    given = _reset(store, record, queue, name, 0)
    record.remove([RecordWrite(PRESENCE, record.key, None)])
    return given


def _reset(store: QueueStore, record: ConsumerRecord, queue: str, name: str, to: int) -> int:
    state = record.state
    after = replace(state, owner="", driver="", settled=to, claimed=to, chunks={}, open={})
    writes = _gone(record.key, state.chunks) + _origins_behind(store, record.key, to)
    return _give_back(store, record, queue, name, after, writes)


def _taken_over(store: QueueStore, queue: str, name: str) -> ConsumerRecord:
    if store.record(CONSUMERS, consumer_key(queue, name)) is None:
        raise _unknown(store, queue, name)
    record = ConsumerRecord(store, queue, name)
    record.take_over()
    return record


def _give_back(
    store: QueueStore, record: ConsumerRecord, queue: str, name: str, after: Consumer, writes: Sequence[RecordWrite]
) -> int:
    """Close the claims, and then return the leases, each time as the one who has the consumer: whoever takes it over in
    between stops this, and does the rest himself, since leases that no claim knows of are given back by any driver."""
    opened = record.state.open.values()
    given = sum(one.rows if after.broker else one.followers for one in opened)
    record.commit(after, records=writes)
    for page in held_by(store, queue, worker_name(name)):
        if page:
            given += record.commit(after, settle=returned(queue, page)).settled.count(True)
    return given


def _gone(key: str, chunks: dict[int, int]) -> list[RecordWrite]:
    """The writes that remove these chunks with all that stands beside them."""
    keys = [one for claim, count in chunks.items() for one in chunk_keys(key, claim, count)]
    return [RecordWrite(kind, one, None) for one in keys for kind in (CLAIMS, VERDICTS, ORIGINS)]


def _origins_behind(store: QueueStore, key: str, claim: int) -> list[RecordWrite]:
    found = (one.key for one in records_under(store, ORIGINS, f"{key}:"))
    return [RecordWrite(ORIGINS, one, None) for one in found if int(one.rsplit(":", 2)[1]) > claim]


def _status(
    store: QueueStore, record: Record, state: Consumer, lags: dict[str, tuple[int, float]], now: float
) -> ConsumerStatus:
    queue, name = _names(record.key)
    lag = (None, None) if state.broker else lags.get(queue, (None, None))
    seen = _seen(store, record, state)
    return ConsumerStatus(
        queue=queue,
        consumer=name,
        running=seen is not None and now - seen < SILENCE,
        driver=state.driver or None,
        seen_at=seen,
        settled=state.settled,
        claim=state.claimed,
        held=sum(one.rows for one in state.open.values()),
        claimed_at=min((one.at for one in state.open.values()), default=None),
        runs=max((one.runs for one in state.open.values()), default=0),
        lag_rows=lag[0],
        lag_seconds=lag[1],
        broker=state.broker,
    )


def _seen(store: QueueStore, record: Record, state: Consumer) -> float | None:
    if not state.owner:
        return None
    sign = store.record(PRESENCE, record.key)
    mine = sign is not None and sign.value.decode() == state.owner
    return max(record.updated_at, sign.updated_at) if sign is not None and mine else record.updated_at


def _lag(store: QueueStore, queue: str, followers: int) -> tuple[int, float]:
    stats = store.stats(queue)
    return max(0, stats.ready + stats.blocked - followers), round(stats.oldest_ready_age_seconds or 0.0, 3)


def _unknown(store: QueueStore, queue: str, name: str) -> UnknownConsumer:
    known = [_names(record.key) for record in records_under(store, CONSUMERS, "")]
    here = [one for of, one in known if of == queue]
    if here:
        there = f"it has {', '.join(map(repr, here))}"
    elif known:
        there = "there are " + ", ".join(f"{one!r} of {of!r}" for of, one in known)
    else:
        there = f"nobody has consumed anything of the store at {store.url!r}"
    return UnknownConsumer(f"queue {queue!r} has no consumer {name!r}; {there}")


def _names(key: str) -> tuple[str, str]:
    """The queue and the consumer of a key."""
    queue, name = key.split(":")
    return unquote(queue), unquote(name)
