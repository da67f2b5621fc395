"""Two-phase commit: every participant commits or none does, whoever dies when."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue, Worker, current_job, persistent_worker
from localqueue.contracts import FakeClock
from localqueue.policies import ReturnStoredResult, TwoPhaseCommit
from localqueue.results import MemoryResultStore
from localqueue.stores.port import Changes, RecordWrite
from localqueue.workers.commits.two_phase import KIND, TwoPhase
from localqueue.workers.outcome import drive
from tests.unit.effects import KINDS, RUNS, keyed, open_queue_store, run_in_threads

pytestmark = pytest.mark.by_turns

Run = Callable[..., list[Any]]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_queue_store(request.param, tmp_path, clock=clock) as store:
        yield store


clock = FakeClock()


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


class Bank:
    """A participant that remembers what it was told, and that can be made to fail."""

    def __init__(self, log: list[str] | None = None, name: str = "bank") -> None:
        self.log = [] if log is None else log
        self.name = name
        self.prepared: dict[str, Any] = {}
        self.committed: dict[str, Any] = {}
        self.failing: set[str] = set()

    def _note(self, what: str) -> None:
        self.log.append(f"{self.name} {what}")
        if what in self.failing:
            raise OSError(f"{self.name} can not {what}")

    def prepare(self, txid: str, envelope: dict[str, Any]) -> None:
        self._note("prepare")
        self.prepared[txid] = envelope["result"]

    def commit(self, txid: str) -> None:
        self._note("commit")
        if txid in self.prepared:
            self.committed[txid] = self.prepared.pop(txid)

    def rollback(self, txid: str) -> None:
        self._note("rollback")
        self.prepared.pop(txid, None)


def with_banks(store: Any, *banks: Bank, **stores: Any) -> PersistentQueue[Any]:
    results = stores.pop("result_policy", None)
    options = {} if results is None else {"result_policy": results}
    return keyed(store, commit_policy=TwoPhaseCommit(participants=banks, **stores), **options)


def test_all_participants_prepare_before_any_commits(store: Any, run: Run) -> None:
    log: list[str] = []
    one, two = Bank(log, "one"), Bank(log, "two")
    queue = with_banks(store, one, two)
    queue.put(5, dedupe_key="k")
    assert [settled.state for settled in run(queue, lambda value: value)] == ["acked"]
    assert log == ["one prepare", "two prepare", "one commit", "two commit"]
    assert list(one.committed.values()) == list(two.committed.values()) == [5]
    assert store.records(KIND) == []


def test_a_participant_that_can_not_prepare_rolls_everybody_back(store: Any, run: Run) -> None:
    log: list[str] = []
    one, two = Bank(log, "one"), Bank(log, "two")
    two.failing.add("prepare")
    queue = with_banks(store, one, two)
    after: PersistentQueue[Any] = PersistentQueue("after", store=store)
    queue.put(5, dedupe_key="k")
    (settled,) = run(queue, lambda value: current_job().put("x", to=after))
    assert (settled.state, str(settled.error)) == ("dead-lettered", "two can not prepare")
    assert log == ["one prepare", "two prepare", "two rollback", "one rollback"]
    assert after.stats().total == 0
    assert store.records(KIND) == []


@pytest.mark.parametrize("failing", [True, False])
def test_recovery_leaves_alone_what_its_worker_is_telling(store: Any, failing: bool) -> None:
    class Watched(Bank):
        """Has the worker's recovery look while it is told."""

        def _note(self, what: str) -> None:
            if what != "prepare":
                drive(worker.delivery.coordinator.recover())
            super()._note(what)

    log: list[str] = []
    one, two = Watched(log, "one"), Watched(log, "two")
    if failing:
        two.failing.add("prepare")
    queue = with_banks(store, one, two)
    queue.put(5, dedupe_key="k")
    worker = Worker(queue, lambda value: value, max_tries=1)
    worker.run_until_empty(signals=False)
    ends = ["two rollback", "one rollback"] if failing else ["one commit", "two commit"]
    assert log == ["one prepare", "two prepare", *ends]


def test_a_participant_that_can_not_commit_yet_is_told_again(store: Any) -> None:
    bank = Bank()
    bank.failing.add("commit")
    queue = with_banks(store, bank)
    queue.put(5, dedupe_key="k")
    assert [settled.state for settled in run_in_threads(queue, lambda value: value)] == ["acked"]
    assert bank.committed == {}
    bank.failing.clear()
    run_in_threads(queue, lambda value: value)
    assert list(bank.committed.values()) == [5]
    assert store.records(KIND) == []


def test_a_participant_that_can_not_roll_back_yet_is_told_again_and_the_others_now(store: Any) -> None:
    log: list[str] = []
    one, two, three = (Bank(log, name) for name in ("one", "two", "three"))
    three.failing.add("prepare")
    two.failing.add("rollback")
    queue = with_banks(store, one, two, three)
    queue.put(5, dedupe_key="k")
    run_in_threads(queue, lambda value: value)
    assert (one.prepared, list(two.prepared.values())) == ({}, [5])
    two.failing.clear()
    run_in_threads(queue, lambda value: value)
    assert two.prepared == {}
    assert store.records(KIND) == []


def test_a_decision_that_is_refused_rolls_back(store: Any) -> None:
    bank = Bank()
    queue = with_banks(store, bank)
    after: PersistentQueue[Any] = PersistentQueue("after", store=store, maxsize=1)
    after.put("there")
    queue.put(5, dedupe_key="k")
    (settled,) = run_in_threads(queue, lambda value: current_job().put("x", to=after))
    assert settled.state == "dead-lettered"
    assert (bank.prepared, bank.committed) == ({}, {})
    assert store.records(KIND) == []


def test_a_worker_that_lost_its_lease_rolls_back_also_what_it_prepared_after_recovery(store: Any) -> None:
    bank = Bank()
    queue = with_banks(store, bank)
    recovering = TwoPhase(queue, queue.delivery_policy.commit_policy)
    queue.put(5, dedupe_key="k")

    class Late(Bank):
        """Takes so long to prepare that its worker is given up meanwhile."""

        def prepare(self, txid: str, envelope: dict[str, Any]) -> None:
            clock.advance(31)
            other = queue.get_message(block=False)
            drive(recovering.recover())
            super().prepare(txid, envelope)
            assert queue.ack(other)

    late = Late()
    slow = with_banks(store, late)
    (settled,) = run_in_threads(slow, lambda value: value, max_tries=3)
    assert settled.state == "lost"
    assert (late.prepared, late.committed) == ({}, {})
    assert store.records(KIND) == []


def leave(store: Any, queue: PersistentQueue[Any], state: str, **fields: Any) -> str:
    """What a worker that died has left of the message that is leased now."""
    message = queue.get_message(block=False)
    txid = f"jobs:{message.id}:{message.attempts}"
    value = json.dumps({"state": state, **fields}).encode()
    store.commit(Changes(records=[RecordWrite(KIND, txid, value)]))
    return txid


def test_what_was_not_decided_is_rolled_back_before_the_handler_runs_again(store: Any, run: Run) -> None:
    log: list[str] = []
    bank = Bank(log)
    queue = with_banks(store, bank)
    queue.put(5, dedupe_key="k")
    txid = leave(store, queue, "preparing")
    bank.prepared[txid] = 5
    clock.advance(31)

    def handler(value: int) -> int:
        log.append("handler")
        return value

    run(queue, handler, max_tries=3)
    assert log.index("bank rollback") < log.index("handler")
    assert (bank.prepared, list(bank.committed.values())) == ({}, [5])
    assert store.records(KIND) == []


def test_work_of_a_worker_that_is_alive_is_left_alone(store: Any) -> None:
    bank = Bank()
    queue = with_banks(store, bank)
    queue.put(5, dedupe_key="k")
    leave(store, queue, "preparing")
    run_in_threads(queue, lambda value: value)
    assert bank.log == []


def test_what_was_decided_is_committed_by_the_next_worker(store: Any, run: Run) -> None:
    bank, commits = Bank(), MemoryResultStore()
    queue = with_banks(store, bank, commit_store=commits)
    queue.put(5, dedupe_key="k")
    told = {"key": "commit:dedupe:jobs:k", "envelope": {"phase": "commit"}}
    bank.prepared[leave(store, queue, "committed", told=told)] = 5
    run(queue, lambda value: value)
    assert list(bank.committed.values()) == [5]
    assert commits.load("commit:dedupe:jobs:k") == {"phase": "commit"}
    assert store.records(KIND) == []


def test_the_decorator_recovers_too(store: Any) -> None:
    bank = Bank()
    queue = with_banks(store, bank)
    queue.put(5, dedupe_key="k")
    bank.prepared[leave(store, queue, "committed")] = 5
    queue.put(6, dedupe_key="l")
    assert persistent_worker(queue)(lambda value: value)() == 6
    assert sorted(bank.committed.values()) == [5, 6]


def test_two_recoveries_at_once_agree(store: Any) -> None:
    bank = Bank()
    queue = with_banks(store, bank)
    queue.put(5, dedupe_key="k")
    bank.prepared[leave(store, queue, "preparing")] = 5
    clock.advance(31)
    queue.get_message(block=False)
    policy = queue.delivery_policy.commit_policy
    one, two = TwoPhase(queue, policy).recover(), TwoPhase(queue, policy).recover()
    next(one).function("x")  # the first has decided and is about to tell the participant
    drive(two)
    with pytest.raises(StopIteration):
        one.send(None)
    assert (bank.prepared, store.records(KIND)) == ({}, [])


def test_envelopes_of_both_phases_are_stored(store: Any, run: Run) -> None:
    prepares, commits, results = MemoryResultStore(), MemoryResultStore(), MemoryResultStore()
    queue = with_banks(
        store, prepare_store=prepares, commit_store=commits, result_policy=ReturnStoredResult(result_store=results)
    )
    message = queue.put(5, dedupe_key="k")
    run(queue, lambda value: value)
    envelope = {
        "queue": "jobs", "message_id": message.id, "dedupe_key": "k", "result_key": "dedupe:jobs:k", "result": 5,
    }  # fmt: skip
    assert prepares.load("prepare:dedupe:jobs:k") == {**envelope, "phase": "prepare"}
    assert commits.load("commit:dedupe:jobs:k") == {**envelope, "phase": "commit"}
    assert store.records(KIND) == []


def test_a_prepare_store_that_fails_keeps_the_message(store: Any) -> None:
    class Broken(MemoryResultStore):
        def save(self, key: str, value: Any) -> None:
            raise OSError("no disk")

    bank = Bank()
    queue = with_banks(store, bank, prepare_store=Broken())
    queue.put(5, dedupe_key="k")
    (settled,) = run_in_threads(queue, lambda value: value)
    assert settled.state == "dead-lettered"
    assert (bank.prepared, bank.committed) == ({}, {})


def test_coroutine_participants_run_on_the_loop_and_are_refused_elsewhere(store: Any) -> None:
    class AsyncBank(Bank):
        async def prepare(self, txid: str, envelope: dict[str, Any]) -> None:  # type: ignore[override]
            super().prepare(txid, envelope)

    bank = AsyncBank()
    queue = with_banks(store, bank)
    queue.put(5, dedupe_key="k")
    assert [settled.state for settled in RUNS["loop"](queue, lambda value: value)] == ["acked"]
    assert list(bank.committed.values()) == [5]
    queue.put(6, dedupe_key="l")
    (settled,) = run_in_threads(queue, lambda value: value)
    assert "is a coroutine function" in str(settled.error)
