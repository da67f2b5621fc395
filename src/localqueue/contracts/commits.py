"""The contract of effectively-once work: what commit policies, participants and stores keep through crashes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.policies import CommitPolicy, EffectivelyOnceDelivery, ReturnStoredResult, SagaCommit, TwoPhaseCommit
from localqueue.queue import PersistentQueue
from localqueue.stores.port import QueueStore
from localqueue.workers import current_job, persistent_worker
from localqueue.workers.commits import coordinator_for
from localqueue.workers.outcome import drive

LEASE = 30.0
RESULT = {"answer": 42}


class Killed(SystemExit):
    """Stands for the death of the worker, which ends its process."""


@dataclass(kw_only=True)
class CommitHarness:
    """How the suite builds the work under test.

    `open(clock)` opens a new and empty queue store; it is called once for each crash. `make_policy()` makes the commit
    policy, and `make_delivery(store)` further arguments of `EffectivelyOnceDelivery`, an idempotency store for
    instance. `applied()` lists the effects that outside systems have made lasting so far, `effects` is how many one
    success has, and `unfinished()` lists those that are neither made nor undone. `step(value)` is what the handler does
    beside its follow-up, and `drain(queue)` what has to run after the worker, a relay for instance.
    """

    open: Callable[[FakeClock], QueueStore]
    make_policy: Callable[[], CommitPolicy]
    make_delivery: Callable[[QueueStore], Mapping[str, Any]] = field(default=lambda store: {})
    effects: int = 0
    applied: Callable[[], list[Any]] = field(default=list)
    unfinished: Callable[[], list[Any]] = field(default=list)
    step: Callable[[Any], object] = field(default=lambda value: None)
    drain: Callable[[PersistentQueue[Any]], object] = field(default=lambda queue: None)


class _Fuse:
    """Kills at the nth point it is asked at, and nothing passes it after that; without a number it only counts."""

    def __init__(self) -> None:
        self.passed = 0
        self.at: int | None = None

    def point(self) -> None:
        self.passed += 1
        if self.at is not None and self.passed >= self.at:
            raise Killed

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def fused(*args: Any, **kwargs: Any) -> Any:
            self.point()
            result = call(*args, **kwargs)
            self.point()
            return result

        return fused


class _FusedParticipant:
    def __init__(self, participant: Any, fuse: _Fuse) -> None:
        self.prepare = fuse.around(participant.prepare)
        self.commit = fuse.around(participant.commit)
        self.rollback = fuse.around(participant.rollback)


class _Place:
    """One store with one message, and the worker that processes it."""

    def __init__(self, harness: CommitHarness) -> None:
        self.harness, self.fuse, self.clock = harness, _Fuse(), FakeClock()
        self.store = harness.open(self.clock)
        policy = self._fused(harness.make_policy())
        options = {"result_policy": ReturnStoredResult(), **harness.make_delivery(self.store)}
        self.queue: PersistentQueue[Any] = PersistentQueue(
            "work",
            store=self.store,
            lease_timeout=LEASE,
            delivery_policy=EffectivelyOnceDelivery(commit_policy=policy, **options),
        )
        self.after: PersistentQueue[Any] = PersistentQueue("after", store=self.store)
        self.fails = False
        self.store.commit = self.fuse.around(self.store.commit)  # type: ignore[method-assign]
        self.store.lease = self.fuse.around(self.store.lease)  # type: ignore[method-assign]

    def _fused(self, policy: Any) -> CommitPolicy:
        if isinstance(policy, TwoPhaseCommit):
            return replace(policy, participants=tuple(_FusedParticipant(p, self.fuse) for p in policy.participants))
        if isinstance(policy, SagaCommit):
            undo = {name: self.fuse.around(call) for name, call in policy.compensations.items()}
            return replace(policy, compensations=undo)
        return policy  # type: ignore[no-any-return]

    def work(self) -> Any:
        """Process one message as a process that was just started."""

        @persistent_worker(self.queue, max_tries=1)
        def handle(value: Any) -> Any:
            self.fuse.point()
            self.harness.step(value)
            current_job().put("follow-up", to=self.after)
            self.fuse.point()
            if self.fails:
                raise ValueError("the handler fails")
            return RESULT

        return handle()

    def finish(self) -> None:
        """Process until nothing is left, with the leases of the dead run out."""
        for _ in range(3):
            self.clock.advance(10 * LEASE)
            while self.queue.stats().ready:
                try:
                    self.work()
                except Exception:
                    continue
            drive(coordinator_for(self.queue).recover())
        self.harness.drain(self.queue)

    def follow_ups(self) -> int:
        return self.after.stats().total

    def close(self) -> None:
        self.queue.close()
        self.after.close()
        self.store.close()


class CommitContract:
    """Subclass it as `Test...` and provide the fixture `harness`."""

    @pytest.fixture
    def harness(self) -> CommitHarness:
        raise NotImplementedError(f"{type(self).__name__} provides the fixture `harness`")

    @pytest.fixture
    def new_place(self, harness: CommitHarness) -> Iterator[Callable[[], _Place]]:
        places: list[_Place] = []

        def new_place() -> _Place:
            places.append(_Place(harness))
            return places[-1]

        yield new_place
        for place in places:
            place.close()

    def test_a_success_is_there_whole(self, harness: CommitHarness, new_place: Callable[[], _Place]) -> None:
        place, before = new_place(), len(harness.applied())
        place.queue.put("a", dedupe_key="k")
        assert place.work() == RESULT
        harness.drain(place.queue)
        assert (place.queue.stats().total, place.follow_ups()) == (0, 1)
        assert len(harness.applied()) - before == harness.effects
        assert harness.unfinished() == []

    def test_a_duplicate_changes_nothing_and_returns_the_result(
        self, harness: CommitHarness, new_place: Callable[[], _Place]
    ) -> None:
        place = new_place()
        place.queue.put("a", dedupe_key="k")
        place.work()
        harness.drain(place.queue)
        before = list(harness.applied())
        place.queue.put("b", dedupe_key="k")
        assert place.work() == RESULT
        harness.drain(place.queue)
        assert (place.queue.stats().total, place.follow_ups(), harness.applied()) == (0, 1, before)

    def test_a_failure_leaves_nothing(self, harness: CommitHarness, new_place: Callable[[], _Place]) -> None:
        place, before = new_place(), list(harness.applied())
        place.fails = True
        place.queue.put("a", dedupe_key="k")
        with pytest.raises(ValueError, match="the handler fails"):
            place.work()
        harness.drain(place.queue)
        assert (place.queue.stats().dead, place.follow_ups()) == (1, 0)
        assert harness.applied() == before
        assert harness.unfinished() == []

    def test_a_crash_between_any_two_steps_of_a_success_is_recovered(
        self, harness: CommitHarness, new_place: Callable[[], _Place]
    ) -> None:
        crashes = 0
        while True:
            place, before = new_place(), len(harness.applied())
            place.queue.put("a", dedupe_key="k")
            place.fuse.passed, place.fuse.at = 0, crashes + 1
            try:
                place.work()
            except Killed:
                crashes += 1
            else:
                break
            finally:
                place.fuse.at = None
            place.finish()
            assert place.queue.stats().total == 0, f"lost or left at point {crashes}"
            assert place.follow_ups() == 1, f"follow-ups at point {crashes}"
            assert len(harness.applied()) - before == harness.effects, f"effects at point {crashes}"
            assert harness.unfinished() == [], f"in doubt at point {crashes}"
            place.queue.put("again", dedupe_key="k")
            assert place.work() == RESULT
            assert place.follow_ups() == 1, f"the ledger forgot a success at point {crashes}"
        assert crashes >= 6

    def test_a_crash_between_any_two_steps_of_a_failure_leaves_nothing(
        self, harness: CommitHarness, new_place: Callable[[], _Place]
    ) -> None:
        crashes = 0
        while True:
            place, before = new_place(), list(harness.applied())
            place.fails = True
            place.queue.put("a", dedupe_key="k")
            place.fuse.passed, place.fuse.at = 0, crashes + 1
            try:
                with pytest.raises(ValueError, match="the handler fails"):
                    place.work()
            except Killed:
                crashes += 1
            else:
                break
            finally:
                place.fuse.at = None
            place.finish()
            assert place.queue.stats().dead == 1, f"lost or left at point {crashes}"
            assert place.follow_ups() == 0
            assert harness.applied() == before, f"effects at point {crashes}"
            assert harness.unfinished() == [], f"in doubt at point {crashes}"
        assert crashes >= 6
