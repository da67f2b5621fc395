"""A store that has filled its disk: who puts is refused, and who takes messages out can go on to the last of them."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue.errors import QueueStoreFullError
from localqueue.stores.port import Changes, LeaseRequest, NewMessage
from localqueue.stores.url import open_store
from tests.crash.children import Child
from tests.disks import mount_small_disk

pytestmark = pytest.mark.multiprocess

SIZES = (10, 700, 3000, 9000)


def put_one(store: Any, payload: str) -> list[str]:
    return [store.put_one("jobs", payload, None)[0]]


def put_batch(store: Any, payload: str) -> list[str]:
    return list(store.put_batch("jobs", [payload] * 5, None)[0])


def commit(store: Any, payload: str) -> list[str]:
    (message_id,) = store.mint()
    changes = Changes(enqueue=[NewMessage(message_id, "jobs", payload, ordering_key=payload[:5], headers="{}")])
    (enqueued,) = store.commit(changes).enqueued
    return [enqueued.id or message_id]


def put_within(store: Any, payload: str) -> list[str]:
    """In a transaction of the application's own."""
    (message_id,) = store.mint()
    with closing(sqlite3.connect(store.path, timeout=60.0)) as connection, connection:
        changes = Changes(enqueue=[NewMessage(message_id, "jobs", payload)])
        (enqueued,) = store.commit_within(connection, changes).enqueued
    return [enqueued.id or message_id]


WAYS = {"sqlite": (put_one, put_batch, commit, put_within), "lmdb": (put_one, put_batch, commit)}


def produce(url: str, said: Path, put: Callable[[Any, str], list[str]], *, die: bool = False) -> None:
    """Put until the store refuses, and write down what it confirmed."""
    with open_store(url) as store, said.open("a") as confirmed:
        for n in range(100_000):
            try:
                ids = put(store, f"{n:5}" + "x" * SIZES[n % len(SIZES)])
            except QueueStoreFullError as error:
                assert store.path in str(error)
                break
            confirmed.writelines(f"{one}\n" for one in ids)
            confirmed.flush()
        else:
            raise AssertionError("everything fits into a disk that should be small")
        if die:
            os.kill(os.getpid(), signal.SIGKILL)


def consume(url: str, said: Path) -> None:
    """Take everything out, and write down what was acked."""
    with open_store(url) as store, said.open("a") as acked:
        while messages := store.lease(LeaseRequest("jobs", 3, 60.0)):
            for message in messages:
                assert store.ack_one("jobs", message.id, message.attempts)
                acked.write(f"{message.id}\n")


def in_processes(*works: Callable[[], None]) -> list[int]:
    """Exit codes of forked processes, which see the disk of this one."""
    children = []
    for work in works:
        child = os.fork()
        if not child:
            code = 1
            try:
                work()
                code = 0
            except BaseException as error:
                os.write(2, f"in the child: {error!r}\n".encode())
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def lines(path: Path) -> list[str]:
    return path.read_text().split()


def fill_and_drain(connection: Connection, kind: str, disk: str, elsewhere: str, die: bool) -> None:
    if not mount_small_disk(disk, "4m"):
        connection.send("no disk")
        return
    url, folder = f"{kind}:///{os.path.realpath(disk)}/store", Path(elsewhere)
    for round in range(2):
        put, acked = folder / f"put-{round}", folder / f"acked-{round}"
        producers = [partial(produce, url, put, way, die=die) for way in WAYS[kind] * 2]
        codes = in_processes(*producers)
        kept = [message.id for message in open_store(url, read_only=True).scan("jobs")]
        codes += in_processes(*[partial(consume, url, acked)] * 2)
        with open_store(url) as store:
            left, problems = store.scan("jobs"), store.check().problems
        once = Counter(lines(put)) == Counter(kept) == Counter(lines(acked))
        connection.send((codes, once, len(kept), left, problems))


@pytest.mark.slow
@pytest.mark.parametrize("die", [False, True], ids=["closed", "killed"])
@pytest.mark.parametrize("kind", ["sqlite", "lmdb"])
def test_a_disk_that_producers_filled_is_drained_and_filled_again(kind: str, die: bool, tmp_path: Path) -> None:
    disk, elsewhere = tmp_path / "disk", tmp_path / "elsewhere"
    disk.mkdir()
    elsewhere.mkdir()
    rounds = Child(fill_and_drain, kind, str(disk), str(elsewhere), die).reports()
    if rounds == ["no disk"]:
        pytest.skip("no disk can be mounted here")
    ended = -signal.SIGKILL if die else 0
    first = rounds[0][2]
    assert len(rounds) == 2
    for codes, once, count, left, problems in rounds:
        assert codes == [ended] * 2 * len(WAYS[kind]) + [0] * 2
        assert once, "a confirmed message was lost, or delivered twice"
        assert left == [] and problems == ()
        assert count > first / 2 > 50, "what was taken out did not make room"
