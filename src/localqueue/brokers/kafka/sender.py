"""Sending: records are confirmed by the brokers that keep them before anybody is told that they are sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from localqueue.brokers.kafka.errors import load, translate
from localqueue.brokers.kafka.records import headers_of, id_of
from localqueue.brokers.kafka.settings import KafkaSettings
from localqueue.brokers.port import Outgoing

_SLICE = 0.1
_MOMENT = 0.005


class _Reports:
    """The delivery reports that one call waits for."""

    def __init__(self, count: int) -> None:
        self.error: Any = None
        self.places: list[tuple[int, int]] = [(-1, -1)] * count
        self.awaited = 0
        self._come: list[None] = []  # any thread may add to it, in one step

    @property
    def complete(self) -> bool:
        return len(self._come) >= self.awaited

    def receiver(self) -> Callable[[int, Any, Any], None]:
        """What to call with the position of a message and the report on it."""
        places, come = self.places, self._come.append

        def report(position: int, error: Any, record: Any) -> None:
            if error is None:
                places[position] = (record.partition(), record.offset())
            else:
                self.error = self.error or error
            come(None)

        return report


class Sender:
    """One producer for all topics. Whichever thread waits for reports handles those of the others too."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._driver = load()
        self._producer: Any = None
        self._handling = threading.Lock()
        self._handled = threading.Condition()
        self._waiting = 0
        self._making = threading.Lock()

    def release(self) -> Any:
        """Let go of the producer; it ends with the object that is returned."""
        producer, self._producer = self._producer, None
        return producer

    def send(self, topic: str, messages: Sequence[Outgoing]) -> list[str]:
        """Their ids, when all are confirmed."""
        producer, reports = self.prepare(), _Reports(len(messages))
        try:
            self._produce(producer, topic, messages, reports)
        except self._driver.KafkaException as error:
            reports.error = reports.error or error.args[0]
        self._await(producer, reports)
        if reports.error is not None:
            raise translate(reports.error, topic, self._settings.shown)
        return [
            id_of(*place) if one.id is None else one.id for one, place in zip(messages, reports.places, strict=True)
        ]

    def _produce(self, producer: Any, topic: str, messages: Sequence[Outgoing], reports: _Reports) -> None:
        produce, report = producer.produce, reports.receiver()
        for position, one in enumerate(messages):
            own = one.headers or one.id is not None
            how = {"headers": headers_of(one.headers, one.id)} if own else {}
            while True:
                try:
                    produce(topic, one.body, one.key, on_delivery=partial(report, position), **how)
                    break
                except BufferError:  # so many wait to be confirmed
                    producer.poll(_SLICE)
            reports.awaited += 1

    def _await(self, producer: Any, reports: _Reports) -> None:
        while not reports.complete:
            if self._handling.acquire(blocking=False):
                try:
                    while not reports.complete:
                        producer.flush(_MOMENT)  # which sends at once what lies here
                        self._tell_others()
                finally:
                    self._handling.release()
                    self._tell_others()
            else:
                with self._handled:
                    self._waiting += 1
                    self._handled.wait_for(lambda: reports.complete or not self._handling.locked(), _SLICE)
                    self._waiting -= 1

    def _tell_others(self) -> None:
        if self._waiting:
            with self._handled:
                self._handled.notify_all()

    def prepare(self) -> Any:
        """The producer, which takes half a second before it can send, so it is made as soon as it may be needed."""
        with self._making:
            if self._producer is None:
                self._producer = self._driver.Producer({**self._settings.producer(), "error_cb": _ignore})
            return self._producer


def _ignore(error: Any) -> None:
    """What becomes of a record, its report says."""
