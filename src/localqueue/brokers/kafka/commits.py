"""Committing for all who ack a topic, together."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from localqueue.brokers.kafka.errors import load, translate
from localqueue.brokers.kafka.ledger import Mark
from localqueue.brokers.kafka.partition import Partition
from localqueue.brokers.kafka.settings import KafkaSettings
from localqueue.errors import QueueError

SHORT = 0.002  # seconds that the thread waits while somebody may want something of it
_REARRANGING = frozenset(
    {
        *("REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"),
        *("_WAIT_COORD", "_ASSIGNMENT_LOST", "_STATE", "_NO_OFFSET"),
    }
)


Marks = Mapping[Partition, Mark]


class _Request:
    """Somebody waits for how far these partitions are done to be committed."""

    def __init__(self, touched: set[Partition], deadline: float) -> None:
        self.touched = touched
        self.deadline = deadline
        self.is_answered = False
        self.error: QueueError | None = None


class Commits(ABC):
    """Any thread asks, the one that polls commits and is told of the answer by a poll."""

    _consumer: Any

    def __init__(self, settings: KafkaSettings, topic: str) -> None:
        self.topic = topic
        self._settings = settings
        self._driver = load()
        self._changed = threading.Condition()
        self._requests: list[_Request] = []
        self._underway: tuple[Sequence[_Request], Marks] | None = None
        self._stopping = False
        self._has_left = False

    @abstractmethod
    def _poll(self, timeout: float) -> None:
        """Let the driver work for so many seconds; it tells of answers meanwhile."""

    def _commit(self, touched: set[Partition]) -> None:
        """Have the thread commit how far these are done, together with what others ask for."""
        request = _Request(touched, time.monotonic() + self._settings.timeout)
        with self._changed:
            if self._marks((request,)):
                self._requests.append(request)
                self._changed.notify_all()
                self._changed.wait_for(lambda: request.is_answered or self._has_left)
        if request.error is not None:
            raise request.error

    def _serve_requests(self, *, at_once: bool = False) -> None:
        """Commit what was asked for. A poll brings the answer, unless this is called within one."""
        with self._changed:
            requests, self._requests = self._requests, []
            marks = self._marks(requests)
        if marks and not at_once:
            self._commit_and_poll(requests, marks)
        elif marks:
            self._answer(requests, marks, self._commit_now(marks))
        elif requests:
            self._answer(requests, marks, None)

    def _commit_now(self, marks: Marks) -> Any:
        try:
            self._consumer.commit(offsets=self._offsets(marks), asynchronous=False)
        except self._driver.KafkaException as error:
            return error.args[0]
        return None

    def _commit_and_poll(self, requests: Sequence[_Request], marks: Marks) -> None:
        deadline = time.monotonic() + self._settings.timeout
        self._underway = (requests, marks)
        try:
            self._consumer.commit(offsets=self._offsets(marks), asynchronous=True)
        except self._driver.KafkaException as error:
            self._end_underway(error.args[0])
        while self._underway is not None:
            if time.monotonic() > deadline:
                self._end_underway(self._driver.KafkaError(self._driver.KafkaError._TIMED_OUT))
            self._poll(SHORT)

    def _have_committed(self, error: Any, offsets: list[Any]) -> None:
        """The answer has come, in a poll. One that comes too late for those who waited is not heeded."""
        if self._underway is None:
            return
        wanted = {partition.number: mark.position for partition, mark in self._underway[1].items()}
        if not offsets or {one.partition: one.offset for one in offsets} == wanted:
            self._end_underway(error or next((one.error for one in offsets if one.error is not None), None))

    def _end_underway(self, error: Any) -> None:
        underway, self._underway = self._underway, None
        if underway is not None:
            self._answer(*underway, error)

    def _commit_underway_now(self) -> None:
        """Called within a poll, which brings no answer before it is over: what waits for one is committed again."""
        if self._underway is not None:
            self._end_underway(self._commit_now(self._underway[1]))

    def _answer(self, requests: Sequence[_Request], marks: Marks, error: Any) -> None:
        now = time.monotonic()
        with self._changed:
            if error is None:
                for partition, mark in marks.items():
                    partition.committed = mark
                    partition.ledger.committed(mark)
            for request in requests:
                if error is None:
                    request.is_answered = True
                elif error.name() in _REARRANGING and now < request.deadline and not self._stopping:
                    self._requests.append(request)  # either its partitions go, or they are ours after all
                else:
                    request.error = translate(error, self.topic, self._settings.shown)
                    request.is_answered = True
            self._changed.notify_all()

    def _marks(self, requests: Iterable[_Request]) -> dict[Partition, Mark]:
        """What there is to commit. Called with the lock."""
        touched = {one for request in requests for one in request.touched if not one.gone}
        found = {one: one.ledger.mark() for one in touched}
        return {one: mark for one, mark in found.items() if mark != one.committed}

    def _offsets(self, marks: Marks) -> list[Any]:
        return [self._driver.TopicPartition(self.topic, one.number, *mark) for one, mark in marks.items()]
