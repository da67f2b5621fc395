"""A process that copies a queue is killed, again and again; in the end everything was copied once."""

from __future__ import annotations

import signal
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from localqueue import queue_copy
from localqueue.queue import PersistentQueue
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, Settle
from tests.crash.children import Child
from tests.crash.stores import die, kill_at, watch_edges
from tests.stores import Place, new_place

pytestmark = [pytest.mark.crash, pytest.mark.multiprocess, pytest.mark.slow]

MESSAGES = 40
_PAGE = 7


def copy(connection: Connection, source: Place, target: Place, edge: str, nth: int) -> None:
    queue_copy._PAGE = _PAGE
    with source.open() as here, target.open() as there:
        if edge in ("before", "after"):
            die_around(there, edge, nth)
        else:
            watch_edges(there, kill_at(edge, nth))
        copied = queue_copy.copy_queue(
            PersistentQueue[Any]("jobs", store=here), PersistentQueue[Any]("jobs", store=there)
        )
        connection.send(copied.already_there)


def die_around(store: Any, edge: str, nth: int) -> None:
    """End this process before or after its nth commit, on a store whose transactions have no edges to hold on to."""
    commit, count = store.commit, iter(range(1, 1_000_000))

    def commit_or_die(changes: Changes) -> Any:
        last = next(count) == nth
        if last and edge == "before":
            die()
        committed = commit(changes)
        if last:
            die()
        return committed

    store.commit = commit_or_die


def fill(store: Any) -> None:
    ids = store.mint(MESSAGES)
    drafts = [NewMessage(i, "jobs", f"m{n}", ordering_key="k" if n % 9 == 0 else None) for n, i in enumerate(ids)]
    drafts += [NewMessage(i, "jobs", "after", after=(ids[n],)) for n, i in enumerate(store.mint(5))]
    drafts += [NewMessage(i, "jobs", "dead", delay=60.0) for i in store.mint(5)]
    store.commit(Changes(enqueue=drafts))
    store.commit(Changes(settle=[Settle("jobs", draft.id, "dead-letter") for draft in drafts[-5:]]))


def consume(store: Any, seen: Counter[str], most: int = 1000) -> None:
    while most and (leased := store.lease(LeaseRequest("jobs", 1))):
        seen[leased[0].payload] += 1
        assert store.ack_one("jobs", leased[0].id, leased[0].attempts)
        most -= 1


LOCAL = [("sqlite", "lmdb"), ("lmdb", "sqlite"), ("sqlite", "sqlite")]
SERVERS = [("sqlite", "postgres"), ("sqlite", "redis"), ("sqlite", "mongodb"), ("redis", "postgres")]


@pytest.mark.parametrize(
    ("kinds", "edge", "consumed"),
    [
        *(
            (kinds, edge, consumed)
            for kinds in LOCAL
            for edge in ("applied", "committed")
            for consumed in (True, False)
        ),
        *((kinds, "before", False) for kinds in SERVERS),
        *((kinds, "after", True) for kinds in SERVERS),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else str(value),
)
def test_a_copy_that_is_killed_again_and_again_ends_with_everything_once(
    kinds: tuple[str, str], edge: str, consumed: bool, tmp_path: Path
) -> None:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    source, target = new_place(kinds[0], tmp_path / "source"), new_place(kinds[1], tmp_path / "target")
    seen: Counter[str] = Counter()
    with source.open() as here:
        fill(here)
        expected: Counter[str] = Counter(message.payload for message in here.scan("jobs") if message.state != "dead")
    kills = 0
    for nth in (1, 2, 4, 3, 2, 5, 50):
        child = Child(copy, source, target, edge, nth)
        reports = child.reports()
        if child.exit_code == -signal.SIGKILL:
            kills += 1
            assert reports == []
            with target.open() as there:
                assert there.check().problems == ()
                if consumed:
                    consume(there, seen, most=4)
            continue
        assert child.exit_code == 0
        break
    assert kills >= 3
    with target.open() as there:
        consume(there, seen)
        assert seen == expected
        assert len(there.scan("jobs", state="dead")) == 5
        assert there.check().problems == ()
