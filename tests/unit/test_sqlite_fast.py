"""The short ways of the SQLite store do what the engine does: random operations on one that has them and one that has
none, and the cases that each short way leaves to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from localqueue.contracts import FakeClock
from localqueue.contracts.differ import differ
from localqueue.contracts.steps import put, take
from localqueue.stores.engine.commit import apply
from localqueue.stores.engine.leases import lease
from localqueue.stores.port import (
    Changes,
    Committed,
    LeaseRequest,
    NewMessage,
    Payload,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.sqlite import MemoryQueueStore, fast


class LongWay(MemoryQueueStore):
    """Everything is decided by the engine."""

    def commit(self, changes: Changes) -> Committed:
        return self._write(lambda unit: apply(unit, changes))

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        ids, at = self.put_batch(queue, [payload], codec)
        return ids[0], at

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        ids = self.mint(len(payloads))
        new = [NewMessage(one, queue, payload, codec) for one, payload in zip(ids, payloads, strict=True)]
        return ids, self.commit(Changes(enqueue=new, records=records)).enqueued[0].at

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        return self.commit(Changes(settle=[Settle(queue, message_id, "ack", token)], strict=False)).settled[0]

    def lease(self, request: LeaseRequest) -> list[StoredMessage]:
        return self._write(lambda unit: lease(unit, request, settle_all=True)) or []


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_random_operations_show_no_difference(seed: int) -> None:
    found = differ({"short": MemoryQueueStore, "long": LongWay}, seed=f"fast {seed}", length=120)
    assert found is None, found


def step(store: MemoryQueueStore, *messages: StoredMessage, **more: object) -> Changes:
    settles = [Settle("jobs", one.id, "ack", one.attempts) for one in messages]
    return Changes(settle=settles, lease=LeaseRequest("jobs", len(messages)), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [1, 3])
def test_a_workers_step_acks_writes_and_leases(count: int) -> None:
    with MemoryQueueStore(clock=FakeClock()) as store:
        store.put_batch("jobs", [str(n) for n in range(2 * count)], None)
        leased = store.lease(LeaseRequest("jobs", count))
        changes = step(store, *leased, records=[RecordWrite("kind", "key", b"value", 0)])
        assert fast.is_step(changes)
        done = store.commit(changes)
        assert done.settled == [True] * count
        assert [one.payload for one in done.leased] == [str(n) for n in range(count, 2 * count)]
        record = store.record("kind", "key")
        assert record is not None and done.versions == [record.version]


@pytest.mark.parametrize("count", [1, 7, 8, 75])
def test_records_without_conditions_are_written_like_any_others(count: int) -> None:
    clock = FakeClock()
    keys = [f"{n % 40}" for n in range(count)]  # some of them more than once: the last one stays
    shown = []
    for name in ("all at once", "one by one"):
        with MemoryQueueStore(clock=clock) as store:
            store.commit(Changes(records=[RecordWrite("kind", "0", b"old"), RecordWrite("kind", "z", b"old")]))
            writes = [RecordWrite("kind", key, b"%d" % n) for n, key in enumerate(keys)]
            if name == "all at once":
                versions = store.commit(Changes(records=writes)).versions
            else:
                versions = [version for one in writes for version in store.commit(Changes(records=[one])).versions]
            assert len(set(versions)) == count
            last = dict(zip(keys, versions, strict=True))
            found = store.records("kind")
            assert {one.key: one.version for one in found if one.key in last} == last
            shown.append([(one.key, one.value, one.updated_at) for one in found])
    assert shown[0] == shown[1]


def test_a_step_leaves_to_the_engine_what_an_ack_sets_free() -> None:
    with MemoryQueueStore(clock=FakeClock()) as store:
        first = put(store, "jobs", ordering_key="k")
        second = put(store, "jobs", ordering_key="k")
        dependent = put(store, "later", after=(first,))
        plain = put(store, "jobs")
        leased = store.lease(LeaseRequest("jobs", 2))
        assert [one.id for one in leased] == [first, plain]
        done = store.commit(step(store, *leased))
        assert done.settled == [True, True]
        assert [one.id for one in done.leased] == [second]
        assert take(store, "later").id == dependent
        assert store.check().ok


def test_a_message_twice_in_one_step_is_acked_once() -> None:
    with MemoryQueueStore(clock=FakeClock()) as store:
        store.put_batch("jobs", ["1", "2"], None)
        one, two = store.lease(LeaseRequest("jobs", 2))
        changes = step(store, one, two, one)
        changes.strict = False
        assert store.commit(changes).settled == [True, True, False]


@pytest.mark.parametrize("by", [None, "worker"])
def test_many_that_are_claimed_at_once_are_what_the_store_shows_of_them(by: str | None) -> None:
    with MemoryQueueStore() as store:
        new = [
            NewMessage(one, "jobs", b"\x00" if n == 1 else str(n), "c" if n == 1 else None, priority=n % 2, run_id="r",
                       dedupe_key=f"d{n}", ordering_key=f"k{n}", ttl=900.0, headers='{"a": "b"}' if n == 2 else None)
            for n, one in enumerate(store.mint(12))
        ]  # fmt: skip
        store.commit(Changes(enqueue=new))
        store.put_batch("jobs", ["1", "2"], None)
        leased = store.lease(LeaseRequest("jobs", 20, 30.0, by))
        assert {one.id: one for one in leased} == {one.id: one for one in store.scan("jobs")}
        assert len(leased) == 14
        back = [Settle("jobs", one.id, "release", one.attempts, error={"type": "E"}) for one in leased[:1]]
        store.commit(Changes(settle=back))
        (again,) = store.lease(LeaseRequest("jobs", 20, 30.0, by))  # one with a history
        assert again == store.get("jobs", again.id)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (Settle("jobs", "x", "ack", "1"), TypeError),  # type: ignore[arg-type]
        (Settle("jobs", 1, "ack", 1), TypeError),  # type: ignore[arg-type]
        (Settle("jobs", "x", "ack", True), TypeError),
        (Settle("jobs", "x", "release", 1, delay=float("nan")), ValueError),
        (Settle("jobs", "x", "release", 1, error="no"), TypeError),  # type: ignore[arg-type]
        (("jobs", "x", "ack", 1), TypeError),
    ],
)
def test_a_settle_that_can_not_be_is_found_among_many(wrong: Any, error: type[Exception]) -> None:
    with MemoryQueueStore() as store:
        with pytest.raises(error) as alone:
            store.commit(Changes(settle=[wrong]))
        many = [Settle("jobs", str(n), "ack", n) for n in range(20)]
        with pytest.raises(error) as among:
            store.commit(Changes(settle=[*many, wrong]))
        assert str(alone.value) == str(among.value)
        assert store.commit(Changes(settle=many, strict=False)).settled == [False] * 20


def test_of_many_acks_those_that_are_not_ours_and_those_that_come_twice_are_refused() -> None:
    with MemoryQueueStore() as store:
        store.put_batch("jobs", ["1"] * 20, None)
        leased = store.lease(LeaseRequest("jobs", 20, 30.0))
        acks = [Settle("jobs", one.id, "ack", one.attempts) for one in leased]
        stale = acks[3]._replace(token=7)
        settled = store.commit(Changes(settle=[*acks[:3], stale, *acks[4:], acks[0]], strict=False)).settled
        assert settled == [True] * 3 + [False] + [True] * 16 + [False]
        assert [one.id for one in store.scan("jobs")] == [stale.id]
