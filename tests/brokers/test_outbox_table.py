"""Outbox tables in the columns of Debezium: each row arrives once in a store, and is deleted when it has."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.bridges import OutboxTable
from localqueue.errors import QueueStoreUnavailableError
from localqueue.stores.port import Changes, QueueStore
from localqueue.stores.sqlite import MemoryQueueStore

CREATE = """CREATE TABLE outboxevent
(id {id} PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload {json}, position integer)"""
ROWS = [
    (f"0000-{number}", "order" if number % 3 else "customer", f"k{number % 2}", "OrderPlaced", {"n": number}, number)
    for number in range(10)
]
INSERT = "INSERT INTO outboxevent VALUES ({}, {}, {}, {}, {}, {})"


@pytest.fixture
def there() -> Iterator[QueueStore]:
    with MemoryQueueStore() as store:
        yield store


def fill_sqlite(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(CREATE.format(id="text", json="text"))
        rows = [(*row[:4], json.dumps(row[4]), row[5]) for row in reversed(ROWS)]
        connection.executemany(INSERT.format(*"??????"), rows)
        connection.commit()
    return f"sqlite:///{path}"


def fill_postgres(url: str) -> str:
    import psycopg

    with psycopg.connect(url) as connection:
        connection.execute("DROP TABLE IF EXISTS outboxevent")
        connection.execute(CREATE.format(id="text", json="jsonb"))
        for row in reversed(ROWS):
            values = (*row[:4], json.dumps(row[4]), row[5])
            connection.execute(INSERT.format(*["%s"] * 6), values)
    return url


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.server)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return fill_sqlite(tmp_path / "shop.db")
    return fill_postgres(request.getfixturevalue("postgres").url)


def values(store: QueueStore, queue: str) -> list[Any]:
    return [one.value for one in PersistentQueue[Any](queue, store=store).messages()]


def test_rows_go_to_the_queues_of_their_aggregates_in_order(database: str, there: QueueStore) -> None:
    with OutboxTable(database, there, order_by="position", batch=4) as outbox:
        counts = outbox.run_until_empty()
        assert (counts.received, counts.moved) == (10, 10)
        assert outbox.run_until_empty() == counts
    assert values(there, "outbox.event.order") == [{"n": number} for number in (1, 2, 4, 5, 7, 8)]
    assert values(there, "outbox.event.customer") == [{"n": number} for number in (0, 3, 6, 9)]
    message = there.scan("outbox.event.order")[0]
    assert message.ordering_key == "k1"
    assert json.loads(message.headers or "") == {"id": "0000-1", "type": "OrderPlaced", "aggregateid": "k1"}


def test_a_row_that_was_sent_and_not_deleted_arrives_once(database: str, there: QueueStore) -> None:
    with OutboxTable(database, there, order_by="position") as outbox, pytest.raises(KeyboardInterrupt):
        _interrupt_after(outbox)
        outbox.run_until_empty()
    with OutboxTable(database, there, order_by="position") as again:
        counts = again.run_until_empty()
    assert (counts.moved, counts.duplicates) == (0, 10)
    assert len(values(there, "outbox.event.order")) == 6


def _interrupt_after(outbox: OutboxTable) -> None:
    """Sends the batch, and dies before the rows are deleted."""
    send: Callable[[Any], None] = outbox._send

    def send_and_die(events: Any) -> None:
        send(events)
        raise KeyboardInterrupt

    outbox._send = send_and_die  # type: ignore[method-assign]


def test_a_target_that_is_away_is_tried_again(database: str, there: QueueStore) -> None:
    left = [2]

    class Store:
        def __getattr__(self, name: str) -> Any:
            return getattr(there, name)

        def commit(self, changes: Changes) -> Any:
            if left[0]:
                left[0] -= 1
                raise QueueStoreUnavailableError("away")
            return there.commit(changes)

    with OutboxTable(database, Store(), order_by="position") as outbox:  # type: ignore[arg-type]
        counts = outbox.run_until_empty()
    assert counts.retries == 2
    assert len(values(there, "outbox.event.order")) + len(values(there, "outbox.event.customer")) == 10


def test_a_table_that_is_not_there_is_said_and_not_made(tmp_path: Path, there: QueueStore) -> None:
    with OutboxTable(f"sqlite:///{tmp_path}/none.db", there) as outbox, pytest.raises(ValueError, match="outboxevent"):
        outbox.run_until_empty()
    assert list(tmp_path.iterdir()) == []
    for wrong, said in (
        ({"table": "a; DROP TABLE b"}, "no name of a table"),
        ({"route": "{type}"}, "can have {aggregatetype}"),
        ({"batch": 0}, "batch must be at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            OutboxTable(f"sqlite:///{tmp_path}/none.db", there, **wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="in SQLite or PostgreSQL"):
        OutboxTable("redis://localhost", there)
