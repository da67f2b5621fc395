"""The brokers of the tests by their kinds, and what Spark does with a stream reader, step by step, without Spark."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadMaxRows
from pyspark.sql.types import StructType

from localqueue.brokers import Outgoing, open_broker
from localqueue.brokers.port import Broker
from localqueue.spark.datasource import LocalQueueDataSource

KINDS = ("rabbitmq", "sqs", "redis-streams", "kafka", "pgmq")


def url_of(kind: str, request: pytest.FixtureRequest) -> str:
    match kind:
        case "sqs":
            return str(request.getfixturevalue("sqs_server").url)
        case "redis-streams":
            return str(request.getfixturevalue("redis_server").url).replace("redis://", "redis+stream://")
        case "pgmq":
            return str(request.getfixturevalue("pgmq"))
        case "rabbitmq-classic":
            return f"{request.getfixturevalue('rabbitmq').url}?queue_type=classic"
        case _:
            return str(request.getfixturevalue(kind).url)


class Place:
    """A queue of a broker, and a store for the claims on it."""

    def __init__(self, url: str, folder: Path) -> None:
        self.broker: Broker = open_broker(url)
        self.queue = f"orders_{secrets.token_hex(4)}"
        self.broker.ensure(self.queue)
        self.options = {
            "url": url,
            "queue": self.queue,
            "mode": "consume",
            "consumer": "etl",
            "claimStore": f"sqlite:///{folder}/claims.db",
            "claimTimeout": "2",
        }

    def send(self, numbers: range) -> None:
        self.broker.send_batch(self.queue, [Outgoing(json.dumps({"n": n}).encode()) for n in numbers])

    def reader(self, schema: StructType | None = None, **options: str) -> Any:
        source = LocalQueueDataSource({**self.options, **options})
        return source.streamReader(schema or source.schema())


class Died(BaseException):
    """The process ends here."""


class Engine:
    """A streaming query as Spark runs it: a log of offsets, a log of commits, and a sink that knows its batches."""

    def __init__(self, place: Place, *, rows: int = 3, schema: StructType | None = None, **options: str) -> None:
        self.place = place
        self.rows = rows
        self.schema = schema
        self.options = options
        self.offsets: list[dict[str, Any]] = []
        self.committed = 0  # batches
        self.sink: dict[int, list[dict[str, Any]]] = {}
        self.reader: Any = None
        self.dies_after: str | None = None

    def start(self, **options: str) -> None:
        """A new driver, with the same checkpoint."""
        self.options |= options
        self.reader = self.place.reader(self.schema, **self.options)

    def die(self) -> None:
        """As a kill does it: nothing is given back, and the connections are gone."""
        claimant, self.reader = self.reader._claimant, None
        if claimant is not None:
            claimant._keeper.close()
            claimant._aside.shutdown(cancel_futures=True)
            claimant._store._broker.close()
            claimant._store._store.close()

    def batch(self) -> bool:
        """One micro-batch, the one that was under way first; whether there was one."""
        if len(self.offsets) == self.committed:
            start = self.offsets[-1] if self.offsets else self.reader.initialOffset()
            end = self.reader.latestOffset(start, ReadMaxRows(self.rows))
            self._step("latestOffset")
            if end == start:
                return False
            if not self.offsets:
                self.offsets.append(start)
                self.committed = 1
            self.offsets.append(end)
            self._step("offsets")
        start, end = self.offsets[-2:]
        parts = self.reader.partitions(start, end)
        self._step("partitions")
        found = [row for part in parts for batch in self.reader.read(part) for row in batch.to_pylist()]
        self._step("read")
        self.sink.setdefault(self.committed, found)  # a batch that it has is not taken again
        self._step("sink")
        self.committed += 1
        self._step("commit")
        return True

    def _step(self, name: str) -> None:
        if self.dies_after == name:
            self.dies_after = None
            raise Died(name)

    def values(self) -> list[Any]:
        return [json.loads(row["value"])["n"] for rows in self.sink.values() for row in rows]

    def run_until(self, happened: Callable[[], bool], what: str, *, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not happened():
            if not self.batch():
                assert time.monotonic() < deadline, what
                time.sleep(0.02)  # between two questions, as Spark has it
