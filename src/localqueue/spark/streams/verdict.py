"""The verdicts on a claim: which of its messages become dead letters when it is settled, and with which error.

A verdict is written before the claim is settled and never taken back. A sink may have seen a batch that Spark did not
get to log, and skips it when it is repeated: a message that was left out of it and came back later would be nowhere. So
whoever settles the claim, also a later driver with another schema, dead-letters the messages with a verdict and acks
the rest, in one commit, and whoever reads the claim leaves those messages out.

Each chunk of a claim has a record of verdicts under its own key, made with the claim. It is kept apart from the
consumer's record, which only the driver may write, so that a job may add to it while its batch runs. Settling a claim
closes it, under the version that was read: a verdict comes in time, or is refused.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from localqueue.errors import RecordConflict
from localqueue.spark.streams.claim_blob import held
from localqueue.spark.streams.consumer_record import CLAIMS, CONSUMERS, VERDICTS, Consumer, chunk_keys, consumer_key
from localqueue.stores import rules
from localqueue.stores.port import Changes, QueueStore, Record, RecordWrite, StoredMessage

_TRIES = 20

T = TypeVar("T")

#: Why a message becomes a dead letter, as `Settle` takes it: `type`, `module` and `message`.
Error = Mapping[str, Any]

#: The ids of the messages whose payloads do not fit, each with the reason.
Misfits = Callable[[Sequence[StoredMessage]], Mapping[str, str]]


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on one chunk, by message id. `closed` when the claim is settled; `version` is that of the record."""

    key: str
    errors: Mapping[str, Error] = field(default_factory=dict)
    closed: bool = False
    version: int = 0

    @classmethod
    def of(cls, record: Record) -> Verdicts:
        found = json.loads(zlib.decompress(record.value))
        return cls(record.key, found["errors"], found["closed"], record.version)

    def lacks(self, errors: Mapping[str, Error]) -> bool:
        """Whether these errors bring something new, or there is no record yet."""
        return self.version == 0 or bool(errors.keys() - self.errors.keys())

    def adding(self, errors: Mapping[str, Error]) -> RecordWrite:
        """The write that adds these. The first verdict on a message stands."""
        return self._write({**errors, **self.errors}, closed=self.closed)

    def closing(self) -> RecordWrite:
        """The write after which nothing can be added."""
        return self._write(self.errors, closed=True)

    def _write(self, errors: Mapping[str, Error], *, closed: bool) -> RecordWrite:
        said = json.dumps({"errors": dict(errors), "closed": closed}, default=str)
        return RecordWrite(VERDICTS, self.key, zlib.compress(said.encode(), 1), self.version)


def read_verdicts(store: QueueStore, keys: Iterable[str]) -> dict[str, Verdicts]:
    """The verdicts on these chunks. A chunk that has no record has no verdicts yet."""
    records = {key: store.record(VERDICTS, key) for key in keys}
    return {key: Verdicts(key) if record is None else Verdicts.of(record) for key, record in records.items()}


def condemn(store: QueueStore, queue: str, consumer: str, errors: Mapping[str, Error]) -> set[str]:
    """Have messages of a consumer's open claims become dead letters when their batch is committed.

    `errors` has, for each message id (`_id` of a typed row, `id` otherwise), the error of the dead letter: a mapping
    with `type`, `module` and `message`. For a job on the driver that consumes in `foreachBatch`: it finds the rows that
    must not go on, condemns their messages, and writes the others.

        def batch(frame, number):
            bad = {row["_id"]: {"type": "Expectation", "module": "shop", "message": "amount < 0"} for row in ...}
            condemn(store, "orders", "etl", bad)
            frame.where(...).write...

    The verdicts are durable when this returns. The commit that settles the claim, whoever makes it and when, writes the
    dead letters and acks the other messages. A batch that fails and is run again does not have the condemned rows any
    more; within one run of a batch the rows stay the same, however often they are read. Doing it again changes nothing,
    and a verdict can not be taken back.

    Only messages of claims that are not settled can be condemned. Returns the ids of those that are in none and have no
    verdict either (the batch was committed before, or they were never claimed): nothing is done to them.

    The driver of the consumer need not be this process, and is not disturbed.
    """
    key = consumer_key(queue, consumer)

    def write() -> set[str]:
        record = store.record(CONSUMERS, key)
        chunks = {} if record is None else Consumer.of(record.value).chunks
        left, writes = set(errors), []
        for chunk in (one for claim, count in chunks.items() for one in chunk_keys(key, claim, count)):
            found = store.record(VERDICTS, chunk)
            if found is None:
                continue
            verdicts = Verdicts.of(found)
            left -= verdicts.errors.keys()
            if left and not verdicts.closed and (blob := store.record(CLAIMS, chunk)) is not None:
                here = left.intersection(one.id for one in held(blob.value))
                left -= here
                if here:
                    writes.append(verdicts.adding({message_id: errors[message_id] for message_id in here}))
        if writes:
            store.commit(Changes(records=writes))
        return left

    return undisturbed(write)


def undisturbed(write: Callable[[], T]) -> T:
    """Do a write again when a record was changed since it was read."""
    for _ in range(_TRIES - 1):
        with suppress(RecordConflict):
            return write()
    return write()


def corrupt(misfits: Mapping[str, str]) -> dict[str, Error]:
    """The errors of messages that do not fit the schema, for their reasons."""
    error = {"type": "CorruptRow", "module": "localqueue.spark"}
    return {one: {**error, "message": f"it does not fit the schema: {why}"} for one, why in misfits.items()}


def worn_out(messages: Iterable[StoredMessage], run: int, most: int) -> dict[str, Error]:
    """The errors of messages that were delivered `most` times before this run of their claim. A run is a delivery."""
    before = {one.id: one.attempts - one.forgiven + run - 2 for one in messages}
    last = "its batch was not committed"
    return {one: rules.attempts_exhausted(tries, last) for one, tries in before.items() if tries >= most}
