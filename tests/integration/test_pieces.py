"""What concerns many messages goes in pieces, and others take their turn between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.stores.engine import pieces
from localqueue.stores.port import Changes, NewMessage, Settle
from localqueue.stores.sqlite import SQLiteQueueStore
from tests.processes import context
from tests.stores import Place, new_place

MANY = 6_000
_TRIES = 10


def put_until_told(connection: Connection, place: Place) -> None:
    """Put one message after the other; when each was stored."""
    stored = []
    with place.open() as store:
        connection.send("ready")
        while not connection.poll():
            store.put_one("elsewhere", "x", None)
            stored.append(time.monotonic())
    connection.send(stored)


def fill(store: Any, **options: Any) -> list[str]:
    ids: list[str] = store.mint(MANY)
    store.commit(Changes(enqueue=[NewMessage(one, "jobs", "x", **options) for one in ids]))
    return ids


def fill_run(store: Any) -> None:
    fill(store, run_id="r")


def fill_dead(store: Any) -> None:
    store.commit(Changes(settle=[Settle("jobs", one, "dead-letter") for one in fill(store)]))


def fill_journal(store: Any) -> None:
    store.enable_journal()
    fill(store)


OPERATIONS: dict[str, tuple[Callable[[Any], object], Callable[[Any], int]]] = {
    "purge": (fill, lambda store: store.purge("jobs")),
    "cancel": (fill_run, lambda store: store.cancel_run("r")),
    "requeue": (fill_dead, lambda store: store.requeue("jobs")),
    "prune": (fill_dead, lambda store: store.prune("jobs", state="dead", older_than=0)),
    "journal": (fill_journal, lambda store: store.prune_events(older_than=0, through=MANY)),
}


@pytest.mark.slow
@pytest.mark.multiprocess
@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_another_process_writes_while_many_messages_are_changed(kind: str, operation: str, tmp_path: Path) -> None:
    """The pauses are short: on a busy machine the other process may sleep through all of them, but not each time."""
    for n in range(_TRIES):
        pauses, stored = changed_while_another_puts(new_place(kind, tmp_path / str(n)), operation)
        assert len(pauses) >= 3, "it was not done in pieces"
        if any(end < at < begin for end, begin in pauses for at in stored):
            return
    raise AssertionError("nobody came between")


def changed_while_another_puts(place: Place, operation: str) -> tuple[list[tuple[float, float]], list[float]]:
    """From when to when nothing was written between two pieces, and when the other process has stored its messages."""
    prepare, work = OPERATIONS[operation]
    with place.open() as store:
        prepare(store)
        store.disable_journal()
        ours, theirs = context.Pipe()
        process = context.Process(target=put_until_told, args=(theirs, place), daemon=True)
        process.start()
        assert ours.recv() == "ready"
        edges: list[tuple[str, float]] = []
        store._writer.on_edge = lambda edge: edges.append((edge, time.monotonic()))
        assert work(store) == MANY
        store._writer.on_edge = None
        ours.send("stop")
        stored = ours.recv()
        ended = [at for edge, at in edges if edge == "committed"]
        begun = [at for edge, at in edges if edge == "begun"]
        process.join(60)
        assert store.check().problems == ()
    return list(zip(ended, begun[1:], strict=False)), stored


def test_a_piece_is_as_large_as_fits_into_a_moment() -> None:
    assert pieces.next_size(500, 0.1) == 500
    assert pieces.next_size(500, 0.2) == 250
    assert pieces.next_size(500, 0.0) == 1000
    assert pieces.next_size(4000, 0.001) == 5000
    assert pieces.next_size(500, 1000) == 10


def test_a_purge_does_not_look_at_the_messages_of_other_queues(tmp_path: Path) -> None:
    with SQLiteQueueStore(tmp_path / "store") as store:
        store.put_batch("large", ["x"] * MANY, None)
        store.put_batch("small", ["x"] * 10, None)
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1000

        store._writer.connection.set_progress_handler(count, 1000)
        assert store.purge("small") == 10
        assert steps < MANY


def test_a_piece_of_messages_that_ended_together_does_not_look_at_those_before_it(tmp_path: Path) -> None:
    with SQLiteQueueStore(tmp_path / "store") as store:
        fill_dead(store)
        ended_at = float(store.scan("jobs", limit=1)[0].failed_at or store.now())
        row = store._reader.one("SELECT max(key), max(ended_at), min(ended_at) FROM lq_messages")
        assert row is not None and row[1] == row[2]
        steps = 0

        def count() -> None:
            nonlocal steps
            steps += 1000

        store._writer.connection.set_progress_handler(count, 1000)
        rows = store.new_rows()
        assert rows.ended(rows.queue("jobs"), 5, ended_at + 1e9, (row[1], row[0] - 1), 10)[0].key == row[0]
        assert steps < MANY
