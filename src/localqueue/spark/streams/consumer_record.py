"""Who a consumer is: one record that only its latest driver can write.

Spark tells a reader neither its query nor its checkpoint, so a consumer is known by the name the user gives it. Whoever
begins to use that name takes the record over, and from then on every write of the one before is refused.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from urllib.parse import quote

from localqueue.errors import QueueError, RecordConflict
from localqueue.stores.port import Changes, Committed, QueueStore, RecordWrite, Settle

#: The kinds of records: who a consumer is, that its driver lives, and of each chunk of its claims the messages, the
#: verdicts on them, and their names at a broker.
CONSUMERS = "spark-consumer"
PRESENCE = "spark-presence"
CLAIMS = "spark-claim"
VERDICTS = "spark-verdict"
ORIGINS = "spark-origin"
_TRIES = 10


def consumer_key(queue: str, consumer: str) -> str:
    """The key of a consumer's record."""
    return f"{quote(queue, safe='')}:{quote(consumer, safe='')}"


def worker_name(consumer: str) -> str:
    """The name under which a consumer leases."""
    return f"spark:{consumer}"


def chunk_keys(key: str, claim: int, count: int) -> list[str]:
    """The keys of the chunks of a claim, of which there are `count`."""
    return [f"{key}:{claim:012d}:{chunk:04d}" for chunk in range(count)]


class ConsumerTakenOver(QueueError, RuntimeError):
    """Another query uses the same consumer name and has begun later than this one."""


@dataclass(frozen=True, kw_only=True)
class OpenClaim:
    """What is known of a claim that is not settled: its messages, when it was made, how often Spark has begun it.

    `followers` are those of its messages that are blocked behind others of it.
    """

    rows: int = 0
    at: float = 0.0
    runs: int = 1
    followers: int = 0


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """What is known of a consumer. `chunks` counts those of the claims that can be read: the last settled, the open.

    `broker` says that the messages are at one, and only the claims in the store. `owner` is the driver that may write,
    as a word of its own and, in `driver`, by its host and process; none of a consumer that was released.
    """

    generation: int = 0
    owner: str = ""
    settled: int = 0
    claimed: int = 0
    chunks: dict[int, int] = field(default_factory=dict)
    open: dict[int, OpenClaim] = field(default_factory=dict)
    broker: bool = False
    driver: str = ""

    @classmethod
    def of(cls, value: bytes) -> Consumer:
        found = json.loads(value)
        chunks = {int(claim): count for claim, count in found["chunks"].items()}
        opened = {int(claim): OpenClaim(**one) for claim, one in found.get("open", {}).items()}
        return cls(**{**found, "chunks": chunks, "open": opened})

    def opening(self, one: OpenClaim, chunks: int) -> Consumer:
        """With one more claim."""
        claim = self.claimed + 1
        return replace(self, claimed=claim, chunks={**self.chunks, claim: chunks}, open={**self.open, claim: one})

    def running(self, claim: int) -> Consumer:
        """With one more run of this claim."""
        one = self.open.get(claim, OpenClaim())
        return replace(self, open={**self.open, claim: replace(one, runs=one.runs + 1)})

    def settling(self, upto: int) -> Consumer:
        """With the claims up to this one settled; it is the only one of them that can still be read."""
        return replace(
            self,
            settled=upto,
            chunks={claim: count for claim, count in self.chunks.items() if claim >= upto},
            open={claim: one for claim, one in self.open.items() if claim > upto},
        )

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()


class ConsumerRecord:
    """The record of one consumer. `state` is what this object last wrote; before `take_over` it may not write."""

    def __init__(self, store: QueueStore, queue: str, consumer: str, *, broker: bool = False) -> None:
        self.key = consumer_key(queue, consumer)
        self._broker = broker
        self.state = Consumer()
        self._store = store
        self._shown = f"consumer {consumer!r} of queue {queue!r}"
        self._owner = secrets.token_hex(8)
        self._version = 0

    def take_over(self) -> None:
        """Become the one driver of the consumer, whose claims go on where they are."""
        for _ in range(_TRIES):  # others may try at the same time: the last one has it
            found = self._store.record(CONSUMERS, self.key)
            before = Consumer() if found is None else Consumer.of(found.value)
            self._version = 0 if found is None else found.version
            try:
                after = replace(before, generation=before.generation + 1, owner=self._owner)
                self.commit(replace(after, broker=before.broker or self._broker, driver=_here()))
                return
            except ConsumerTakenOver:
                continue
        raise self._taken_over()

    def commit(
        self,
        state: Consumer,
        *,
        settle: Sequence[Settle] = (),
        records: Sequence[RecordWrite] = (),
        strict: bool = False,
    ) -> Committed:
        """Write the state, and in the same transaction settle messages and write other records.

        RecordConflict when it is one of those that was not in the version it was expected in; with `strict` LeaseLost
        when a lease is not current.
        """
        mine = RecordWrite(CONSUMERS, self.key, state.to_bytes(), self._version)
        try:
            committed = self._store.commit(Changes(settle=settle, records=[mine, *records], strict=strict))
        except RecordConflict:
            found = self._store.record(CONSUMERS, self.key)
            if records and found is not None and found.version == self._version:
                raise
            raise self._taken_over() from None
        self.state = state
        self._version = committed.versions[0]
        return committed

    def remove(self, records: Sequence[RecordWrite]) -> None:
        """Have no such consumer any more, and write these records with that."""
        gone = RecordWrite(CONSUMERS, self.key, None, self._version)
        try:
            self._store.commit(Changes(records=[gone, *records]))
        except RecordConflict:
            raise self._taken_over() from None

    def live(self) -> None:
        """Tell that the driver lives. Nothing comes of it when the consumer is somebody else's by now."""
        self._store.commit(Changes(records=[RecordWrite(PRESENCE, self.key, self._owner.encode())]))

    def verify(self) -> None:
        """Raise unless this object still has the consumer."""
        found = self._store.record(CONSUMERS, self.key)
        if found is None or Consumer.of(found.value).owner != self._owner:
            raise self._taken_over()

    def _taken_over(self) -> ConsumerTakenOver:
        return ConsumerTakenOver(
            f"{self._shown} was taken over by another query, or released; give each query a consumer name of its own"
        )


def _here() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"
