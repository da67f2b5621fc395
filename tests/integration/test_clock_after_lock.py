"""The clock is read when a call may write, not when it begins to wait: whoever waited has a whole lease."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.stores.port import Changes, Lease, LeaseRequest, Settle
from tests.crash.children import Child
from tests.stores import Place, new_place

HELD = 0.6
LEASE = 0.3
KNOWN = 0.05  # seconds: how well the time of a server on a busy machine is known here


def hold_file(connection: Connection, place: Place) -> None:
    """Stay in a write transaction for a while; report when it was begun, and when it is about to end."""

    def on_edge(edge: str) -> None:
        if edge == "applied":
            connection.send("held")
            time.sleep(HELD)
            connection.send(time.time())

    with place.open() as store:
        (store._writer if place.kind == "sqlite" else store._environment.writer).on_edge = on_edge
        store.put_one("elsewhere", "x", None)


@contextmanager
def file_held(place: Place) -> Iterator[Callable[[], float]]:
    child = Child(hold_file, place)
    assert child.connection.recv() == "held"
    yield child.connection.recv
    assert child.exit_code == 0


def in_background(hold: Callable[[Callable[[], None]], None]) -> tuple[threading.Thread, list[float]]:
    """Run `hold(stay)`, which calls `stay` when it holds; returns when it does."""
    held, ends = threading.Event(), list[float]()

    def stay() -> None:
        held.set()
        time.sleep(HELD)
        ends.append(time.time())

    thread = threading.Thread(target=hold, args=(stay,), daemon=True)
    thread.start()
    assert held.wait(20)
    return thread, ends


@contextmanager
def table_held(place: Place) -> Iterator[Callable[[], float]]:
    """As it is while a journal is switched on."""
    import psycopg

    def hold(stay: Callable[[], None]) -> None:
        with psycopg.connect(place.location) as connection:
            connection.execute("LOCK TABLE localqueue.lq_messages IN SHARE ROW EXCLUSIVE MODE")
            stay()

    thread, ends = in_background(hold)
    yield lambda: ends[0]
    thread.join(20)


@contextmanager
def documents_held(place: Place) -> Iterator[Callable[[], float]]:
    """As they are by a transaction that is about to change them."""

    def hold(stay: Callable[[], None]) -> None:
        with place.open() as store, store.server.client.start_session() as session, session.start_transaction():
            store.server.messages.update_many({"n": store.namespace_id}, {"$set": {"t": 1}}, session=session)
            stay()
            session.abort_transaction()

    thread, ends = in_background(hold)
    yield lambda: ends[0]
    thread.join(20)


HOLD = {"sqlite": file_held, "lmdb": file_held, "postgres": table_held, "mongodb": documents_held}


def claim(store: Any, held: Any) -> float:
    (message,) = store.lease(LeaseRequest("jobs", timeout=LEASE))
    return float(message.leased_until) - LEASE


def claim_some(store: Any, held: Any) -> float:
    messages = store.lease(LeaseRequest("jobs", 2, timeout=LEASE, leased_by="me"))
    assert len({message.leased_until for message in messages}) == 1
    return float(messages[0].leased_until) - LEASE


def step(store: Any, held: Any) -> float:
    settle = Settle("jobs", held.id, "ack", held.attempts)
    done = store.commit(Changes(settle=[settle], lease=LeaseRequest("jobs", timeout=LEASE)))
    return float(done.leased[0].leased_until) - LEASE


def renew(store: Any, held: Any) -> float:
    (until,) = store.renew([Lease("jobs", held.id, held.attempts)], timeout=LEASE)
    return float(until) - LEASE


def put_one(store: Any, held: Any) -> float:
    return float(store.put_one("jobs", "new", None)[1])


def put_some(store: Any, held: Any) -> float:
    return float(store.put_batch("jobs", ["new"] * 3, None)[1])


CLAIMS = (claim, claim_some, step, renew)
PUTS = (put_one, put_some)


@pytest.mark.multiprocess
@pytest.mark.parametrize("kind", HOLD)
@pytest.mark.parametrize("write", [*CLAIMS, *PUTS], ids=lambda write: write.__name__)
def test_what_waited_for_another_writer_is_dated_by_when_it_was_its_turn(
    kind: str, write: Callable[..., float], tmp_path: Path
) -> None:
    if kind == "mongodb" and write in PUTS:
        return  # a new document waits for nobody
    place = new_place(kind, tmp_path)
    with place.open() as store:
        store.put_batch("jobs", ["x"] * 5, None)
        (leased,) = store.lease(LeaseRequest("jobs", timeout=60))
        with HOLD[kind](place) as released:
            at = write(store, leased)
            assert at >= released() - KNOWN
        assert store.check().problems == ()


@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_what_waited_for_another_thread_is_dated_by_when_it_was_its_turn(kind: str, tmp_path: Path) -> None:
    with new_place(kind, tmp_path).open() as store:
        store.put_batch("jobs", ["x"] * 5, None)
        writer = store._writer
        writer.lock.acquire()
        times: list[float] = []
        threads = [
            threading.Thread(target=lambda write=write: times.append(write(store, None)), daemon=True)
            for write in (claim, claim_some, put_one, put_some)
        ]
        for thread in threads:
            thread.start()
        time.sleep(LEASE)
        released = time.time()
        writer.lock.release()
        for thread in threads:
            thread.join(20)
        assert len(times) == 4 and min(times) >= released
