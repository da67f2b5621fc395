"""All stores answer and show the same, whatever they are told and however time passes.

`LOCALQUEUE_ROUNDS` sets how many rounds run. More of them: `python -m tests.differential --rounds 1000`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from localqueue.contracts.differ import differ, play
from localqueue.contracts.operation import Operation
from localqueue.contracts.teller import Situation, Teller
from localqueue.stores.port import Changes, Committed, LeaseRequest, QueueStore, StoredMessage
from localqueue.stores.sqlite import MemoryQueueStore
from tests.differential.known import ONCE_DISAGREED
from tests.differential.stores import KINDS, openers

ROUNDS = int(os.environ.get("LOCALQUEUE_ROUNDS", "2"))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
def test_files_and_memory_do_not_disagree(number: int, tmp_path: Path) -> None:
    found = differ(openers(("memory", "sqlite", "lmdb"), tmp_path), seed=f"files/{number}", length=80)
    assert found is None, str(found)


@pytest.mark.server
@pytest.mark.parametrize("number", range(1, ROUNDS + 1))
def test_no_two_stores_disagree(number: int, tmp_path: Path) -> None:
    found = differ(openers(KINDS, tmp_path), seed=f"all/{number}")
    assert found is None, str(found)


@pytest.mark.parametrize("operations", list(ONCE_DISAGREED.values()), ids=list(ONCE_DISAGREED))
def test_files_do_not_disagree_any_more(operations: list[Operation], tmp_path: Path) -> None:
    found = play(openers(("memory", "sqlite", "lmdb"), tmp_path), operations)
    assert found is None, str(found)


@pytest.mark.server
def test_servers_do_not_disagree_any_more(tmp_path: Path) -> None:
    stores = openers(KINDS, tmp_path)
    found = {name: str(one) for name, told in ONCE_DISAGREED.items() if (one := play(stores, told)) is not None}
    assert not found, "\n".join(f"{name}: {one}" for name, one in found.items())


# the differ itself


class DropsPriorities(MemoryQueueStore):
    def commit(self, changes: Changes) -> Committed:
        changes.enqueue = [message._replace(priority=0) for message in changes.enqueue]
        return super().commit(changes)


class ForgetsWhoLeased(MemoryQueueStore):
    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        return super().lease(request._replace(leased_by=None))


class ClaimsInPuts(MemoryQueueStore):
    def commit(self, changes: Changes) -> Committed:
        for message in changes.enqueue:
            super().lease(LeaseRequest(message.queue, limit=1, timeout=0.0))
        return super().commit(changes)


@pytest.mark.slow
@pytest.mark.parametrize("faulty", [DropsPriorities, ForgetsWhoLeased, ClaimsInPuts])
def test_a_store_that_goes_its_own_way_is_found_and_shown_in_a_few_operations(
    faulty: Callable[..., QueueStore],
) -> None:
    stores = {"memory": MemoryQueueStore, "faulty": faulty, "other": MemoryQueueStore}
    found = next(filter(None, (differ(stores, seed=seed) for seed in range(20))))
    assert found.most == ("memory", "other")
    assert list(found.odd) == ["faulty"]
    assert len(found.operations) <= 6, str(found)
    assert all(str(operation) in str(found) for operation in found.operations)


def test_a_round_is_repeated_by_its_seed() -> None:
    def told(seed: str) -> list[str]:
        operations: list[Operation] = []
        teller = Teller(seed)
        for _ in range(40):
            operations.append(teller.next(Situation()))
        return [str(operation) for operation in operations]

    assert told("a") == told("a") != told("b")


@pytest.mark.slow
def test_every_verb_that_changes_a_store_is_told() -> None:
    told: set[str] = set()

    class Listening(Teller):
        def next(self, known: Situation) -> Operation:
            operation = super().next(known)
            told.add(operation.verb)
            return operation

    reads = {"get", "qsize", "load", "stats", "scan", "splits", "queues", "runs", "run", "run_messages", "upstream"}
    reads |= {"record", "records", "subscriptions", "journal_enabled", "events", "journal_span", "paused", "check"}
    around = {
        "namespace",
        "url",
        "mint",
        "now",
        "observe",
        "backup",
        "compact",
        "close",
        "listen",
        "listen_capacity",
        "listen_run",
        "listen_records",
    }
    verbs = {name for name in dir(QueueStore) if not name.startswith("_")} - reads - around
    for seed in range(8):
        assert play({"memory": MemoryQueueStore}, Listening(seed), 150) is None
        if verbs <= told:
            return
    assert verbs <= told
