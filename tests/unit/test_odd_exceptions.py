"""Participants, compensations, observers and dispatched handlers may raise what a generator or a task would end by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.message import QueueMessage
from localqueue.policies import CallbackDispatcher, SagaCommit, TwoPhaseCommit
from localqueue.workers import current_job
from tests.unit.effects import RUNS, keyed
from tests.unit.worker_ways import in_tasks, in_threads


class Participant:
    """Raises once where it is told to."""

    def __init__(self, where: str, error: BaseException) -> None:
        self.calls: list[str] = []
        self._raises = {where: error}

    def _do(self, what: str) -> None:
        self.calls.append(what)
        if what in self._raises:
            raise self._raises.pop(what)

    def prepare(self, txid: str, envelope: Any) -> None:
        self._do("prepare")

    def commit(self, txid: str) -> None:
        self._do("commit")

    def rollback(self, txid: str) -> None:
        self._do("rollback")


ODD = {"GeneratorExit": GeneratorExit, "CancelledError": asyncio.CancelledError, "StopIteration": StopIteration}


@pytest.mark.parametrize("kind", ODD.values(), ids=ODD)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_participant_may_raise_whatever_it_likes(run: Callable[..., Any], kind: type[BaseException]) -> None:
    with MemoryQueueStore() as store:
        for where, states in (("prepare", ["released", "acked"]), ("commit", ["acked"])):
            participant = Participant(where, kind("no"))
            queue = keyed(store, where, commit_policy=TwoPhaseCommit(participants=[participant]))
            queue.put(1, dedupe_key="k")
            assert [one.state for one in run(queue, lambda value: value, max_tries=2, wait=None)] == states
            assert participant.calls[-1] == "commit", "what was in doubt is finished"
            assert store.records("two-phase") == []


@pytest.mark.parametrize("kind", ODD.values(), ids=ODD)
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_compensation_that_raises_whatever_it_likes_is_tried_again(
    run: Callable[..., Any], kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localqueue.workers.commits.saga._TRY_AGAIN", 0.01)
    errors: list[BaseException] = [kind("no")]
    undone: list[str] = []

    def undo(value: Any, result: Any) -> None:
        if errors:
            raise errors.pop()
        undone.append(result)

    def handler(value: Any) -> None:
        current_job().step("flight", lambda: "booked")
        raise ValueError("no room")

    with MemoryQueueStore() as store:
        queue = keyed(store, commit_policy=SagaCommit(compensations={"flight": undo}))
        queue.put(1, dedupe_key="k")
        assert [one.state for one in run(queue, handler)] == ["released", "dead-lettered"]
        assert undone == ["booked"]
        assert (queue.dead_letters()[0].last_error or {})["message"] == "no room"


@pytest.mark.parametrize("kind", ODD.values(), ids=ODD)
@pytest.mark.parametrize("way", [in_threads, in_tasks])
def test_observers_may_raise_whatever_they_like(kind: type[BaseException], way: Callable[..., None]) -> None:
    def fail(told: Any) -> None:
        raise kind("no")

    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store, hooks=fail)
        queue.put_many(range(3))
        way(queue, lambda value: None, on_settled=fail)
        assert queue.stats().total == 0


@pytest.mark.parametrize("kind", ODD.values(), ids=ODD)
def test_a_handler_of_a_dispatcher_may_raise_whatever_it_likes(kind: type[BaseException]) -> None:
    seen: list[str] = []

    def handler(message: QueueMessage[Any]) -> None:
        seen.append(message.value)
        if message.value == "poison":
            raise kind("no")

    with MemoryQueueStore() as store:
        dispatcher = CallbackDispatcher([handler], dispatches_on_put=False)
        queue = PersistentQueue[Any]("jobs", store=store, dispatch_policy=dispatcher, max_attempts=1)
        queue.put_many(["poison", "a"])
        assert queue.dispatch_pending() == 2
        assert (seen, queue.stats().dead) == (["poison", "a"], 1)
