"""The dead letters of a topic, read from their own topic without being a member of a group."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from localqueue.brokers.kafka import records
from localqueue.brokers.kafka.errors import load, translate
from localqueue.brokers.kafka.ledger import Ledger, read
from localqueue.brokers.kafka.settings import KafkaSettings
from localqueue.brokers.kafka.topics import Topics, dead_topic
from localqueue.brokers.port import Delivery
from localqueue.errors import QueueStoreUnavailableError


class DeadReceipt:
    """A dead letter that was shown."""

    __slots__ = ("letters", "offset")

    def __init__(self, letters: DeadLetters, offset: int) -> None:
        self.letters = letters
        self.offset = offset


class DeadLetters:
    """Everybody who looks is shown all of them. Which were removed, a group of their own remembers."""

    def __init__(self, settings: KafkaSettings, topics: Topics, topic: str) -> None:
        self._settings = settings
        self._topics = topics
        self._queue = topic
        self._topic = dead_topic(topic)
        self._group = settings.dead_group_of(topic)
        self._driver = load()
        self._one_at_a_time = threading.Lock()

    def look(self, limit: int) -> list[Delivery]:
        with self._one_at_a_time:
            start, end, done = self._state()
            consumer = self._consumer()
            try:
                return self._read(consumer, start, end, done, limit)
            finally:
                consumer.close()

    def remove(self, offsets: Sequence[int]) -> list[bool]:
        """They are gone, for everybody, when this returns."""
        with self._one_at_a_time:
            start, end, done = self._state()
            removed = []
            for offset in offsets:
                removed.append(start <= offset < end and offset not in done)
                done.add(offset)
            ledger = Ledger(start, done)
            for offset in range(start, end):
                ledger.see(offset)
            consumer = self._consumer()
            try:
                where = self._driver.TopicPartition(self._topic, 0, *ledger.mark())
                consumer.commit(offsets=[where], asynchronous=False)
            except self._driver.KafkaException as error:
                raise translate(error.args[0], self._topic, self._settings.shown) from None
            finally:
                consumer.close()
            return removed

    def _state(self) -> tuple[int, int, set[int]]:
        """From which offset to which, and what between them was removed."""
        start, metadata = self._topics.committed(self._topic, [0], self._group).get(0, (0, None))
        first = self._topics.ends(self._topic, [0], first=True)[0]
        return max(start, first), self._topics.ends(self._topic, [0])[0], read(metadata)

    def _consumer(self) -> Any:
        return self._driver.Consumer({**self._settings.consumer(self._group), "error_cb": lambda error: None})

    def _read(self, consumer: Any, start: int, end: int, done: set[int], limit: int) -> list[Delivery]:
        found: list[Delivery] = []
        if start >= end:
            return found
        consumer.assign([self._driver.TopicPartition(self._topic, 0, start)])
        deadline = time.monotonic() + self._settings.timeout
        while len(found) < limit:
            record = consumer.poll(0.1)
            if record is None:
                if time.monotonic() > deadline:
                    raise QueueStoreUnavailableError(
                        f"the dead letters of {self._queue!r} at {self._settings.shown} could not be read in time",
                        path=self._settings.shown,
                    )
                continue
            error = record.error()
            if error is not None and error.name() != "_PARTITION_EOF":
                raise translate(error, self._topic, self._settings.shown)
            if error is None and record.offset() not in done:
                found.append(records.dead_letter(self._queue, record, DeadReceipt(self, record.offset())))
            if record.offset() >= end - (error is None):
                break
        return found
