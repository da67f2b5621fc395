"""Topics from outside: made, removed, looked at."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from localqueue.brokers.kafka.errors import is_missing, load, translate
from localqueue.brokers.kafka.ledger import read
from localqueue.brokers.kafka.settings import KafkaSettings
from localqueue.errors import QueueStoreMissingError, QueueStoreUnavailableError

_NAME = re.compile(r"[A-Za-z0-9._-]{1,244}")
_PAUSE = 0.01  # seconds between two looks at what is being made or removed


def dead_topic(topic: str) -> str:
    return f"{topic}.dead"


class Topics:
    """One connection for questions, made when the first is asked."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._driver = load()
        self._module: Any = import_module("confluent_kafka.admin")
        self._admin: Any = None
        self._making = threading.Lock()

    @property
    def _client(self) -> Any:
        with self._making:
            if self._admin is None:
                self._admin = self._module.AdminClient({**self._settings.client, "error_cb": _ignore})
            return self._admin

    def release(self) -> Any:
        """Let go of the connection; it ends with the object that is returned."""
        admin, self._admin = self._admin, None
        return admin

    def partitions(self, topic: str, *, timeout: float | None = None) -> list[int]:
        """Those of a topic that is there, or `QueueStoreMissingError`."""
        if not _NAME.fullmatch(topic):
            raise ValueError(f"a topic of Kafka is named by up to 244 letters, digits, '.', '_' and '-', not {topic!r}")
        within = self._settings.timeout if timeout is None else timeout
        found = self._asked(topic, lambda: self._client.list_topics(topic, timeout=within)).topics[topic]
        if found.error is not None:
            raise translate(found.error, topic, self._settings.shown)
        return sorted(found.partitions)

    def exists(self, topic: str) -> bool:
        found = self._asked(topic, lambda: self._client.list_topics(topic, timeout=self._settings.timeout)).topics[
            topic
        ]
        if found.error is None:
            return all(one.leader >= 0 for one in found.partitions.values())
        if is_missing(found.error):
            return False
        raise translate(found.error, topic, self._settings.shown)

    def answer(self) -> None:
        self._asked("", lambda: self._client.list_topics(timeout=self._settings.timeout))

    def make(self, topic: str) -> None:
        if not _NAME.fullmatch(topic):
            raise ValueError(f"a topic of Kafka is named by up to 244 letters, digits, '.', '_' and '-', not {topic!r}")
        sizes = {topic: self._settings.partitions, dead_topic(topic): 1}
        wanted = [name for name in sizes if not self.exists(name)]
        if not wanted:
            return
        new = [self._module.NewTopic(name, sizes[name], self._settings.replication) for name in wanted]
        within = self._settings.timeout
        for name, made in self._client.create_topics(new, operation_timeout=within, request_timeout=within).items():
            self._resolve(name, made, unless="TOPIC_ALREADY_EXISTS")
        self._until(lambda: all(self._is_usable(name, sizes[name]) for name in wanted))

    def _is_usable(self, topic: str, size: int) -> bool:
        """Whether its partitions answer, and not only its name."""
        try:
            return self.exists(topic) and len(self.ends(topic, range(size))) == size
        except QueueStoreMissingError:
            return False

    def remove(self, topic: str) -> None:
        names = [name for name in (topic, dead_topic(topic)) if self.exists(name)]
        if names:
            within = self._settings.timeout
            gone = self._client.delete_topics(names, operation_timeout=within, request_timeout=within)
            for name, removed in gone.items():
                self._resolve(name, removed, unless="UNKNOWN_TOPIC_OR_PART")
            self._until(lambda: not any(map(self.exists, names)))

    def ends(self, topic: str, numbers: Iterable[int], *, first: bool = False) -> dict[int, int]:
        """Behind the last record of each partition, or before the `first`."""
        spec = self._module.OffsetSpec.earliest() if first else self._module.OffsetSpec.latest()
        wanted = {self._driver.TopicPartition(topic, number): spec for number in numbers}
        if not wanted:
            return {}
        level, within = self._driver.IsolationLevel.READ_COMMITTED, self._settings.timeout
        deadline = time.monotonic() + within
        while True:
            found = self._client.list_offsets(wanted, isolation_level=level, request_timeout=within)
            try:
                return {one.partition: self._resolve(topic, offset).offset for one, offset in found.items()}
            except QueueStoreUnavailableError:  # of a topic that is just made, or moves
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    def remove_records(self, topic: str, ends: Mapping[int, int]) -> None:
        """Remove what is before these offsets, for every group."""
        wanted = [self._driver.TopicPartition(topic, number, end) for number, end in ends.items()]
        within = self._settings.timeout
        for answer in self._client.delete_records(wanted, request_timeout=within, operation_timeout=within).values():
            self._resolve(topic, answer)

    def unfinished(self, topic: str, group: str) -> int:
        """How many records of a topic the group is not done with."""
        numbers = self.partitions(topic)
        ends, starts, committed = (
            self.ends(topic, numbers),
            self.ends(topic, numbers, first=True),
            self.committed(topic, numbers, group),
        )
        count = 0
        for number in numbers:
            position, metadata = committed.get(number, (-1, None))
            begin = max(position, starts[number])
            count += max(0, ends[number] - begin) - sum(begin <= one < ends[number] for one in read(metadata))
        return count

    def committed(self, topic: str, numbers: Iterable[int], group: str) -> dict[int, tuple[int, str | None]]:
        """What the group has committed for partitions; those without are left out."""
        wanted = [self._driver.TopicPartition(topic, number) for number in numbers]
        asked = self._client.list_consumer_group_offsets(
            [self._driver.ConsumerGroupTopicPartitions(group, wanted)], request_timeout=self._settings.timeout
        )
        (answer,) = asked.values()
        try:
            found = self._resolve(topic, answer).topic_partitions
        except Exception as error:
            if "GROUP_ID_NOT_FOUND" in str(error):
                return {}
            raise
        return {one.partition: (one.offset, one.metadata) for one in found if one.offset >= 0}

    def _resolve(self, topic: str, answer: Any, *, unless: str = "") -> Any:
        try:
            return answer.result()
        except self._driver.KafkaException as error:
            if error.args[0].name() == unless:
                return None
            raise translate(error.args[0], topic, self._settings.shown) from None

    def _asked(self, topic: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except self._driver.KafkaException as error:
            raise translate(error.args[0], topic, self._settings.shown) from None

    def _until(self, done: Callable[[], bool]) -> None:
        """What was asked for may take a moment to be seen everywhere."""
        deadline = time.monotonic() + self._settings.timeout
        while not done() and time.monotonic() < deadline:
            time.sleep(_PAUSE)


def _ignore(error: Any) -> None:
    """Whoever asks is told."""
