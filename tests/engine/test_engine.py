"""The engine alone, without a driver: the state machine against the reference model, and how often a commit looks."""

from __future__ import annotations

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.machine import store_machine
from localqueue.stores.engine.commit import apply
from localqueue.stores.engine.port import Found, Wanted, Writes
from localqueue.stores.engine.unit import Unit
from localqueue.stores.port import Changes, Edge, LeaseRequest, Limit, NewMessage, Settle
from tests.engine.dict_store import DictRows, DictStore

TestEngine = pytest.mark.slow(store_machine(lambda: DictStore, reopenable=False, examples=25))


class CountedRows(DictRows):
    """Counts the looks at the store and the writes."""

    looks = writes = 0

    def fetch(self, wanted: Wanted) -> Found:
        self.looks += 1
        return super().fetch(wanted)

    def write(self, writes: Writes, now: float) -> None:
        self.writes += 1
        super().write(writes, now)


@pytest.fixture
def store() -> DictStore:
    return DictStore(clock=FakeClock())


def cost(store: DictStore, changes: Changes) -> tuple[int, int]:
    """Looks and writes of a commit."""
    rows = CountedRows(store._tables, store.ids, store.now())
    unit = Unit(rows, store.now())
    apply(unit, changes)
    unit.finish()
    return rows.looks, rows.writes


def keyed(store: DictStore, count: int) -> list[NewMessage]:
    return [
        NewMessage(one, "jobs", "{}", dedupe_key=f"d{n}", ordering_key=f"o{n % 3}", delay=n % 2)
        for n, one in enumerate(store.mint(count))
    ]


def test_a_batch_with_keys_is_one_look_and_one_write(store: DictStore) -> None:
    assert cost(store, Changes(enqueue=keyed(store, 50))) == (1, 1)


def test_so_is_a_batch_with_upstreams_and_capacity(store: DictStore) -> None:
    upstream = store.mint()
    store.commit(Changes(enqueue=[NewMessage(upstream[0], "jobs", "{}")]))
    new = [one._replace(after=tuple(upstream), delay=0.0) for one in keyed(store, 20)]
    assert cost(store, Changes(enqueue=new, limits={"jobs": Limit(100)})) == (1, 1)


def test_an_ack_looks_once_more_for_what_it_sets_free(store: DictStore) -> None:
    first, second, third = store.mint(3)
    store.commit(
        Changes(
            enqueue=[
                NewMessage(first, "jobs", "1", ordering_key="k"),
                NewMessage(second, "jobs", "2", ordering_key="k"),
                NewMessage(third, "jobs", "3", after=(first,)),
            ]
        )
    )
    (leased,) = store.lease(LeaseRequest("jobs"))
    assert cost(store, Changes(settle=[Settle("jobs", leased.id, "ack", leased.attempts)])) == (2, 1)
    assert {message.id: message.state for message in store.scan("jobs")} == {second: "ready", third: "ready"}


def test_a_message_is_written_as_it_was_put_before_it_is_settled_in_the_same_commit(store: DictStore) -> None:
    """So that a journal which the store writes by itself has both."""
    (new,) = store.mint()
    changes = Changes(enqueue=[NewMessage(new, "jobs", "{}")], settle=[Settle("jobs", new, "dead-letter")])
    assert cost(store, changes) == (1, 2)
    assert store.stats("jobs").dead == 1


def test_an_edge_to_a_message_of_the_same_commit(store: DictStore) -> None:
    a, b, c = store.mint(3)
    new = [NewMessage(a, "jobs", "a"), NewMessage(b, "jobs", "b"), NewMessage(c, "jobs", "c", after=(a,))]
    store.commit(Changes(enqueue=new, edges=[Edge(b, c)]))
    assert store.upstream("jobs", c) == [a, b]
    assert store.check().ok
