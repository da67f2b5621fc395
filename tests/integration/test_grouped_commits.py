"""Commits of concurrent threads are grouped; a failure or an interrupt in one of them is nobody else's."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import LeaseLost, QueueStoreError
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle
from tests.crash.stores import OPENERS, open_store

PATIENCE = 20.0


@pytest.fixture(params=OPENERS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_store(request.param, tmp_path / "store", durability="power") as store:
        store.put_one("jobs", "first", None)
        yield store
        store._writer.on_edge = None
        assert store.check().problems == ()


class Crowd:
    """One thread holds the first commit open until all others wait for it, so that they make the second together."""

    def __init__(self, store: Any, works: list[Callable[[], Any]]) -> None:
        self.store = store
        self.results: dict[int, Any] = {}
        self.errors: dict[int, BaseException] = {}
        self.edges: list[str] = []
        self.inside_group: Callable[[str], None] = lambda edge: None
        self._held = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=pair, daemon=True) for pair in enumerate(works)]

    def _run(self, number: int, work: Callable[[], Any]) -> None:
        try:
            self.results[number] = work()
        except BaseException as error:
            self.errors[number] = error

    def _on_edge(self, edge: str) -> None:
        self.edges.append(edge)
        if self.edges == ["begun"]:
            expected = len(self.store._writer._waiting) + len(self._threads) - 1
            self._held.set()
            until(lambda: len(self.store._writer._waiting) == expected)
        elif self.edges.count("begun") > 1:
            self.inside_group(edge)

    def go(self) -> None:
        self.store._writer.on_edge = self._on_edge
        self._threads[0].start()
        assert self._held.wait(PATIENCE)
        for thread in self._threads[1:]:
            thread.start()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a thread was forgotten by its group"


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0)


def putting(store: Any, payload: str) -> Callable[[], Any]:
    return lambda: store.put_one("jobs", payload, None)


def payloads(store: Any) -> list[str]:
    return sorted(str(message.payload) for message in store.scan("jobs"))


def test_puts_of_threads_that_wait_for_each_other_share_one_commit(store: Any) -> None:
    crowd = Crowd(store, [putting(store, f"t{n}") for n in range(20)])
    crowd.go()
    assert crowd.errors == {}
    assert crowd.edges == ["begun", "applied", "committed"] * 2
    assert payloads(store) == sorted(["first", *(f"t{n}" for n in range(20))])
    assert len({message_id for message_id, _ in crowd.results.values()}) == 20


def test_a_refused_commit_in_a_group_harms_no_other(store: Any) -> None:
    (message,) = store.lease(LeaseRequest("jobs"))
    stale = Settle("jobs", message.id, "ack", message.attempts + 1)
    (taken,) = store.mint()

    def refused() -> Any:
        return store.commit(Changes(enqueue=[NewMessage(taken, "jobs", "half")], settle=[stale]))

    works = [putting(store, "a"), refused, putting(store, "b"), refused, putting(store, "c")]
    crowd = Crowd(store, works)
    crowd.go()
    assert crowd.edges.count("committed") == 2
    assert {number: type(error) for number, error in crowd.errors.items()} == {1: LeaseLost, 3: LeaseLost}
    assert payloads(store) == ["a", "b", "c", "first"]


def test_a_bug_in_the_work_of_one_thread_harms_no_other(store: Any) -> None:
    def broken() -> Any:
        return store._write(lambda unit: unit.rows.nobody)

    crowd = Crowd(store, [putting(store, "a"), broken, putting(store, "b")])
    crowd.go()
    assert list(crowd.errors) == [1]
    assert payloads(store) == ["a", "b", "first"]


@pytest.mark.parametrize("edge", ["begun", "applied"])
def test_an_interrupt_of_the_thread_that_leads_a_group_loses_no_put_of_another(edge: str, store: Any) -> None:
    crowd = Crowd(store, [putting(store, f"t{n}") for n in range(6)])

    def interrupt(now: str) -> None:
        if now == edge:
            crowd.inside_group = lambda edge: None
            raise KeyboardInterrupt

    crowd.inside_group = interrupt
    crowd.go()
    interrupted = [number for number, error in crowd.errors.items() if isinstance(error, KeyboardInterrupt)]
    assert len(interrupted) == 1
    assert payloads(store) == sorted(["first", *(f"t{n}" for n in crowd.results)])
    assert set(crowd.errors) == set(interrupted), "the interrupt of one thread failed the puts of others"


@pytest.mark.parametrize("edge", ["begun", "applied", "committed"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_an_exception_inside_a_transaction_undoes_it_and_leaves_the_store_usable(
    kind: type[BaseException], edge: str, store: Any
) -> None:
    def on_edge(now: str) -> None:
        if now == edge:
            raise kind

    store._writer.on_edge = on_edge
    with pytest.raises(kind):
        store.put_one("jobs", "interrupted", None)
    with pytest.raises(kind):
        store.commit(Changes(enqueue=[NewMessage(i, q, "fan") for i, q in zip(store.mint(2), "ab", strict=True)]))
    store._writer.on_edge = None
    committed = edge == "committed"
    assert payloads(store) == (["first", "interrupted"] if committed else ["first"])
    assert [store.qsize(queue) for queue in "ab"] == [int(committed)] * 2
    store.put_one("jobs", "next", None)
    store.put_one("a", "next", None)
    assert store.qsize("a") == 1 + committed
    (message,) = store.lease(LeaseRequest("jobs"))
    assert store.ack_one("jobs", message.id, message.attempts)


def test_a_caller_hears_what_another_thread_committed_for_it(store: Any) -> None:
    """The thread that leads a group runs the work of all; whether it observes must not matter to the others."""
    message_id, _ = store.put_one("jobs", "x", None)
    run = store._writer.run

    def run_by_another(work: Any, **options: Any) -> Any:
        with ThreadPoolExecutor(1) as threads:
            return threads.submit(run, work, **options).result()

    store._writer.run = run_by_another
    with store.observe() as heard:
        store.commit(Changes(settle=(Settle("jobs", message_id, "dead-letter"),)))
    assert [(one.type, one.id) for one in heard] == [("dead_lettered", message_id)]


def test_ctrl_c_while_waiting_for_the_writer_does_not_put_later(store: Any) -> None:
    """The main thread waits behind another thread's commit; a put it gave up must not happen after all."""
    held, free = threading.Event(), threading.Event()

    def hold(edge: str) -> None:
        if edge == "begun" and not held.is_set():
            held.set()
            until(lambda: len(store._writer._waiting) == 1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            if not free.wait(PATIENCE / 4):
                # Python notices a signal that comes just before a thread goes to sleep on a lock when it wakes up:
                # another one wakes it.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            assert free.wait(PATIENCE)

    store._writer.on_edge = hold
    holder = threading.Thread(target=store.put_one, args=("jobs", "holder", None), daemon=True)
    holder.start()
    assert held.wait(PATIENCE)
    with pytest.raises(KeyboardInterrupt):
        store.put_one("jobs", "given up", None)
    free.set()
    holder.join(PATIENCE)
    before = payloads(store)
    crowd = Crowd(store, [putting(store, "x"), putting(store, "y")])
    crowd.go()
    assert payloads(store) == sorted([*before, "x", "y"]), "a put that its caller gave up was carried out later"


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_a_full_file_fails_the_group_that_met_it_and_nothing_else(store: Any) -> None:
    (pages,) = store._writer.connection.execute("PRAGMA page_count").fetchone()
    store._writer.connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    crowd = Crowd(store, [putting(store, "small"), *(putting(store, f"{n}" * 3000) for n in range(8))])
    crowd.go()
    assert all(isinstance(error, QueueStoreError) for error in crowd.errors.values()) and crowd.errors
    kept = payloads(store)
    assert len(kept) == 1 + len(crowd.results)
    store._writer.connection.execute("PRAGMA max_page_count = 1000000")
    store.put_one("jobs", "z" * 3000, None)
    assert payloads(store) == sorted([*kept, "z" * 3000])
