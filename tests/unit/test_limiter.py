"""The limiter at a real store: what is committed together, and how what was left behind is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import integers, sampled_from

from localqueue import MemoryQueueStore
from localqueue.contracts import FakeClock
from localqueue.contracts.steps import put
from localqueue.limits import Limited, Limits
from localqueue.limits.book import Book, Entrant
from localqueue.limits.limiter import Limiter, Wish
from localqueue.limits.page import KIND
from localqueue.stores.port import DELAYED, INFLIGHT, READY, Changes, LeaseRequest, QueueStore, Settle, StoredMessage
from tests.limit_histories import exceeds
from tests.stores import new_place

LEASE = 30.0
ONE = Limited("jobs", Limits(concurrency=1), "a")
SHARED = Limited("jobs", Limits(concurrency=1))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite", "lmdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[QueueStore]:
    with new_place(request.param, tmp_path).open(clock=clock) as opened:
        yield opened


@pytest.fixture
def limiter(store: QueueStore) -> Limiter:
    return Limiter(store, store.commit, catch_up=LEASE)


def take(store: QueueStore, limited: Limited = ONE) -> Wish:
    (message,) = store.lease(LeaseRequest("jobs", timeout=LEASE))
    return wish_of(message, limited)


def wish_of(message: StoredMessage, *limited: Limited) -> Wish:
    entrant = Entrant(
        message.queue, message.id, message.attempts, message.priority, message.available_at, message.forgiven
    )
    return Wish(entrant, limited)


def state(store: QueueStore, wish: Wish) -> str:
    message = store.get("jobs", wish.message.id)
    assert message is not None
    return message.state


def ack(store: QueueStore, wish: Wish) -> None:
    assert store.ack_one("jobs", wish.message.id, wish.message.token)


def test_a_message_without_a_place_is_given_back_and_brought_back_by_who_leaves(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    for _ in range(3):
        put(store)
        clock.advance(1)
    first, second, third = take(store), take(store), take(store)
    assert limiter.change([first]) == ["admitted"]
    assert limiter.change([third]) == ["refused"]
    assert limiter.change([second]) == ["refused"]
    assert [state(store, wish) for wish in (first, second, third)] == [INFLIGHT, DELAYED, DELAYED]
    ack(store, first)
    limiter.change(leaving=[first])
    assert [state(store, wish) for wish in (second, third)] == [READY, DELAYED]
    again = store.lease(LeaseRequest("jobs"))[0]
    assert (again.id, again.attempts - again.forgiven) == (second.message.id, 1)


def test_a_message_that_is_brought_back_is_before_those_that_were_behind_it(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    for _ in range(4):
        put(store)
        clock.advance(1)
    first, second = take(store), take(store)
    limiter.change([first])
    limiter.change([second])
    ack(store, first)
    limiter.change(leaving=[first])
    assert take(store).message.id == second.message.id


def test_leaving_and_entering_are_one_commit(store: QueueStore, limiter: Limiter) -> None:
    put(store)
    put(store)
    first, second = take(store, SHARED), take(store, SHARED)
    limiter.change([first], shared=["jobs"])
    assert limiter.change([second], [first], shared=["jobs"]) == ["admitted"]
    record = store.record(KIND, SHARED.record)
    assert record is not None
    assert list(Book.decode(record.value).holders) == [second.message.id]
    limiter.change(leaving=[second])
    assert store.records(KIND) == []


def test_what_a_limit_of_all_messages_refuses_stays_ready_at_its_place(store: QueueStore, limiter: Limiter) -> None:
    put(store)
    put(store)
    first, second = take(store, SHARED), take(store, SHARED)
    limiter.change([first], shared=["jobs"])
    assert limiter.change([second], shared=["jobs"]) == ["refused"]
    assert state(store, second) == READY
    assert limiter.look([SHARED]).free == 0


def test_the_place_of_a_worker_that_died_is_free_when_its_lease_has_run_out(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    put(store)
    put(store)
    dead = take(store, SHARED)
    limiter.change([dead])
    clock.advance(LEASE - 1)
    assert limiter.look([SHARED]).free == 0
    clock.advance(1)
    assert limiter.look([SHARED]).free == 1
    other = take(store, SHARED)
    assert limiter.change([other]) == ["admitted"]


def test_the_place_of_a_worker_that_died_after_it_settled_is_free_soon(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    put(store)
    put(store)
    dead, other = take(store), take(store)
    limiter.change([dead])
    ack(store, dead)
    clock.advance(1)
    assert limiter.change([other]) == ["admitted"]


def test_a_message_that_comes_again_takes_the_place_it_had(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    put(store)
    dead = take(store)
    limiter.change([dead])
    clock.advance(LEASE)
    again = take(store)
    assert again.message.id == dead.message.id
    assert limiter.change([again]) == ["admitted"]
    limiter.change(leaving=[dead])  # a late word of the first one does not count
    assert store.records(KIND) != []
    assert limiter.change([dead]) == ["lost"]
    limiter.change(leaving=[again])
    assert store.records(KIND) == []


def test_a_message_whose_lease_was_lost_is_not_given_back_by_who_had_it(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    put(store)
    put(store)
    first, slow = take(store), take(store)
    limiter.change([first])
    clock.advance(LEASE - 1)
    store.renew([], timeout=LEASE)
    assert store.renew([_lease(first)], timeout=LEASE) != [None]
    clock.advance(1)
    (quick,) = store.lease(LeaseRequest("jobs", timeout=LEASE))
    assert quick.id == slow.message.id
    assert limiter.change([slow]) == ["lost"]
    found = store.get("jobs", quick.id)
    assert found is not None
    assert (found.state, found.attempts) == (INFLIGHT, quick.attempts)


def test_a_message_that_is_brought_back_while_somebody_has_just_leased_it_runs_once(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    put(store)
    put(store)
    first, second = take(store), take(store)
    limiter.change([first])
    limiter.change([second])
    clock.advance(LEASE)
    store.renew([_lease(first)], timeout=LEASE)
    early = take(store)  # it came back by itself
    assert early.message.id == second.message.id
    ack(store, first)
    limiter.change(leaving=[first])  # which brings back a message that is in a worker's hands
    assert limiter.change([early]) == ["lost"]
    again = take(store)
    assert limiter.change([again]) == ["admitted"]
    assert again.message.id == second.message.id


def test_messages_that_are_gone_do_not_keep_others_waiting(store: QueueStore, limiter: Limiter) -> None:
    for _ in range(5):
        put(store)
    first, *waiting = [take(store) for _ in range(5)]
    limiter.change([first])
    for wish in waiting:
        limiter.change([wish])
    store.commit(Changes(settle=[Settle("jobs", wish.message.id, "cancel") for wish in waiting[:3]]))
    ack(store, first)
    limiter.change(leaving=[first])
    assert state(store, waiting[3]) == READY


def test_a_queue_that_was_purged_leaves_no_record(store: QueueStore, limiter: Limiter, clock: FakeClock) -> None:
    for _ in range(4):
        put(store)
    for wish in [take(store) for _ in range(4)]:
        limiter.change([wish])
    store.purge("jobs")
    clock.advance(LEASE)
    limiter.sweep(60)
    assert store.records(KIND) == []


def test_the_records_of_keys_that_are_not_used_any_more_are_swept(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    for n in range(250):
        put(store)
        wish = take(store, Limited("jobs", Limits(rate="1/m"), f"key-{n}"))
        limiter.change([wish])
        ack(store, wish)
    limiter.sweep(60)
    assert len(store.records(KIND)) == 250
    clock.advance(60)
    limiter.sweep(60)
    assert store.records(KIND) == []


def test_a_sweep_brings_back_what_waits_for_workers_that_died(
    store: QueueStore, limiter: Limiter, clock: FakeClock
) -> None:
    put(store)
    put(store)
    first, second = take(store), take(store)
    limiter.change([first])
    clock.advance(LEASE - 5)
    limiter.change([second])
    clock.advance(5)
    limiter.sweep(60)
    assert state(store, second) == READY
    assert store.records(KIND) == []


def _lease(wish: Wish) -> Any:
    from localqueue.stores.port import Lease

    return Lease("jobs", wish.message.id, wish.message.token)


class LimiterMachine(RuleBasedStateMachine):
    """Workers that lease, enter, finish and die in any order, with a reference that remembers everything."""

    @initialize(
        concurrency=integers(1, 3), most=integers(1, 3), seconds=sampled_from([1.0, 10.0]), kind=sampled_from("cr2")
    )
    def begin(self, concurrency: int, most: int, seconds: float, kind: str) -> None:
        self.limits = Limits(
            concurrency=concurrency if kind in "c2" else None, rate=(most, seconds) if kind in "r2" else None
        )
        self.clock = FakeClock()
        self.store = MemoryQueueStore(clock=self.clock)
        self.limiter = Limiter(self.store, self.store.commit, catch_up=LEASE)
        self.left = 0
        self.running: dict[str, list[Wish]] = {"a": [], "b": []}
        self.starts: dict[str, list[float]] = {"a": [], "b": []}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self._drain()
            self.store.close()

    @rule(key=sampled_from("ab"))
    def put_one(self, key: str) -> None:
        self.store.put_one("jobs", key, None)
        self.left += 1

    @rule()
    def work(self) -> None:
        self._work()

    def _work(self) -> bool:
        leased = self.store.lease(LeaseRequest("jobs", timeout=LEASE))
        for message in leased:
            key = str(message.payload)
            wish = wish_of(message, Limited("jobs", self.limits, key))
            (verdict,) = self.limiter.change([wish])
            assert verdict != "lost"
            if verdict == "admitted":
                self.running[key].append(wish)
                self.starts[key].append(self.clock())
        return bool(leased)

    @precondition(lambda self: any(self.running.values()))
    @rule(leaves=sampled_from([True, True, False]))
    def finish(self, leaves: bool) -> None:
        key = next(key for key, running in self.running.items() if running)
        wish = self.running[key].pop(0)
        if self.store.ack_one("jobs", wish.message.id, wish.message.token):
            self.left -= 1
        if leaves:
            self.limiter.change(leaving=[wish])

    @precondition(lambda self: any(self.running.values()))
    @rule()
    def die(self) -> None:
        """A worker is killed: its message stays leased."""
        key = next(key for key, running in self.running.items() if running)
        self.running[key].pop()

    @rule(seconds=sampled_from([0.1, 1.0, 5.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        alive = [_lease(wish) for running in self.running.values() for wish in running]
        if alive:
            assert None not in self.store.renew(alive, timeout=LEASE)

    @rule()
    def sweep(self) -> None:
        self.limiter.sweep(60)

    @invariant()
    def no_more_run_or_start_than_may(self) -> None:
        for key in self.running if hasattr(self, "store") else ():
            if self.limits.concurrency is not None:
                assert len(self.running[key]) <= self.limits.concurrency
            if self.limits.starts is not None:
                assert not exceeds(self.starts[key], *self.limits.starts)

    def _drain(self) -> None:
        """With nobody dying any more every message has its turn, and nothing is left of the limits."""
        for _ in range(40 + 10 * self.left):
            while self._work():
                pass
            self.no_more_run_or_start_than_may()
            while any(self.running.values()):
                self.finish(True)
            if not self.left:
                break
            self.pass_time(5.0)
        assert self.left == 0
        self.clock.advance(2 * LEASE)
        self.limiter.sweep(60)
        assert self.store.records(KIND) == []


@pytest.mark.slow
def test_limits_hold_whatever_workers_do() -> None:
    run_state_machine_as_test(LimiterMachine, settings=settings(max_examples=60, stateful_step_count=40))
