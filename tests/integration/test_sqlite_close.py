"""A closed store says so, whatever is asked of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreClosedError
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage, RecordWrite, Settle
from localqueue.stores.sqlite import MemoryQueueStore, SQLiteQueueStore

PATIENCE = 20.0

CALLS: dict[str, Callable[[Any, str], Any]] = {
    "commit": lambda store, i: store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "jobs", "y")])),
    "settle": lambda store, i: store.commit(Changes(settle=[Settle("jobs", i, "ack", 1)])),
    "write a record": lambda store, i: store.commit(Changes(records=[RecordWrite("kind", "key", b"")])),
    "lease": lambda store, i: store.lease(LeaseRequest("jobs")),
    "lease a batch": lambda store, i: store.lease(LeaseRequest("jobs", 5, 30.0, "worker")),
    "lease of an unknown queue": lambda store, i: store.lease(LeaseRequest("unknown")),
    "renew": lambda store, i: store.renew([Lease("jobs", i, 1)], timeout=5.0),
    "put_one": lambda store, i: store.put_one("jobs", "y", None),
    "put_one into a new queue": lambda store, i: store.put_one("unknown", "y", None),
    "put_batch": lambda store, i: store.put_batch("jobs", ["y"], None, records=[RecordWrite("kind", "key", b"")]),
    "ack_one": lambda store, i: store.ack_one("jobs", i, 1),
    "ack_one of an unknown queue": lambda store, i: store.ack_one("unknown", i, 1),
    "get": lambda store, i: store.get("jobs", i),
    "qsize": lambda store, i: store.qsize("jobs"),
    "load": lambda store, i: store.load("jobs"),
    "stats": lambda store, i: store.stats("jobs"),
    "scan": lambda store, i: store.scan("jobs"),
    "splits": lambda store, i: store.splits("jobs", 2),
    "queues": lambda store, i: store.queues(),
    "runs": lambda store, i: store.runs(),
    "run": lambda store, i: store.run("run"),
    "run_messages": lambda store, i: store.run_messages("run"),
    "upstream": lambda store, i: store.upstream("jobs", i),
    "record": lambda store, i: store.record("kind", "key"),
    "records": lambda store, i: store.records("kind"),
    "subscriptions": lambda store, i: store.subscriptions("jobs"),
    "subscribe": lambda store, i: store.subscribe("jobs", "mail"),
    "unsubscribe": lambda store, i: store.unsubscribe("jobs", "mail"),
    "requeue": lambda store, i: store.requeue("jobs"),
    "prune": lambda store, i: store.prune("jobs", state="dead", older_than=0.0),
    "purge": lambda store, i: store.purge("jobs"),
    "cancel_run": lambda store, i: store.cancel_run("run"),
    "pause": lambda store, i: store.pause("jobs"),
    "resume": lambda store, i: store.resume("jobs"),
    "paused": lambda store, i: store.paused("jobs"),
    "heartbeat": lambda store, i: store.heartbeat("jobs", "worker"),
    "check": lambda store, i: store.check(),
    "listen": lambda store, i: store.listen(["jobs"]).wait(0),
    "listen_capacity": lambda store, i: store.listen_capacity({"jobs": 1}).wait(0),
    "listen_run": lambda store, i: store.listen_run("run").wait(0),
    "listen_records": lambda store, i: store.listen_records("kind", ["key"]).wait(0),
}


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return MemoryQueueStore() if request.param == "memory" else SQLiteQueueStore(tmp_path / "store")


@pytest.mark.parametrize("call", CALLS)
def test_every_method_of_a_closed_store_raises_that_it_is_closed(call: str, store: Any) -> None:
    message_id, _ = store.put_one("jobs", "x", None)
    store.close()
    with pytest.raises(QueueStoreClosedError, match="is closed") as raised:
        CALLS[call](store, message_id)
    assert raised.value.path == store.path and store.path in str(raised.value)


def test_a_backup_of_a_closed_store_is_refused_and_leaves_no_file(store: Any, tmp_path: Path) -> None:
    store.close()
    with pytest.raises(QueueStoreClosedError):
        store.backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_closing_twice_is_fine(store: Any) -> None:
    store.close()
    store.close()


def test_a_closed_store_keeps_no_file_open(tmp_path: Path) -> None:
    path = tmp_path / "store"
    store = SQLiteQueueStore(path)
    store.put_one("jobs", "x", None)
    waiter = store.listen(["other"])
    assert not waiter.wait(0)
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["store"], "the journal is gone only when all connections are"


@pytest.mark.parametrize("timeout", [None, PATIENCE])
def test_closing_ends_the_wait_of_another_thread(timeout: float | None, store: Any) -> None:
    store.put_one("other", "x", None)
    errors: list[BaseException] = []
    looked = threading.Event()
    look = store._clock

    def clock() -> float:
        looked.set()
        return float(look())

    store._clock = clock
    waiter = store.listen(["jobs"])

    def wait() -> None:
        try:
            waiter.wait(timeout)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert looked.wait(PATIENCE)
    started = time.monotonic()
    store.close()
    thread.join(PATIENCE / 2)
    assert not thread.is_alive(), "the thread still waits on a closed store"
    assert time.monotonic() - started < PATIENCE / 2
    assert [type(error) for error in errors] in ([], [QueueStoreClosedError])


def test_closing_while_threads_write_and_read_raises_nothing_but_that_it_is_closed(tmp_path: Path) -> None:
    store = SQLiteQueueStore(tmp_path / "store")
    store.put_one("jobs", "0", None)
    confirmed = [1] * 8
    others: list[BaseException] = []
    started = threading.Barrier(9)

    def work(who: int) -> None:
        started.wait(PATIENCE)
        try:
            while True:
                store.put_one("jobs", f"{who}", None)
                confirmed[who] += 1
                store.stats("jobs")
                store.listen(["nothing"]).wait(0)
        except QueueStoreClosedError:
            pass
        except BaseException as error:
            others.append(error)

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    started.wait(PATIENCE)
    deadline = time.monotonic() + PATIENCE
    while sum(confirmed) < 300:
        assert time.monotonic() < deadline
        time.sleep(0)
    store.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert others == []
    with SQLiteQueueStore(tmp_path / "store") as reopened:
        held = [message.payload for message in reopened.scan("jobs")]
        assert all(held.count(str(n)) >= confirmed[n] - 1 for n in range(8))
        assert reopened.check().problems == ()
