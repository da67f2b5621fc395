"""Keeping a journal: its switch, its numbers, and how much of it is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock, StoreHarness
from localqueue.contracts.journal import types
from localqueue.contracts.replay import replay
from localqueue.contracts.steps import (
    PATIENCE,
    ack,
    drain,
    put,
    put_many,
    take,
)
from localqueue.stores.port import QueueStore

OpenStore = Callable[..., QueueStore]

_A_DAY = 86_400.0


class JournalKeepingContract:
    def test_a_store_keeps_no_journal_until_it_is_asked_to(self, store: QueueStore) -> None:
        put(store)
        drain(store)
        assert not store.journal_enabled()
        assert store.events() == []
        store.enable_journal()
        assert store.journal_enabled()
        assert store.events() == []

    def test_each_namespace_has_its_own_switch_and_sees_its_own_entries(
        self, open_store: OpenStore, clock: FakeClock
    ) -> None:
        one, two, three = (open_store(namespace=name, clock=clock) for name in ("one", "two", "three"))
        one.enable_journal()
        two.enable_journal()
        for store in (one, two, three, one):
            put(store)
            drain(store)
        assert (one.journal_enabled(), two.journal_enabled(), three.journal_enabled()) == (True, True, False)
        assert types(one) == ["enqueued", "leased", "acked"] * 2
        assert types(two) == ["enqueued", "leased", "acked"]
        assert [event.seq for event in one.events()] == [1, 2, 3, 4, 5, 6]
        assert [event.seq for event in two.events()] == [1, 2, 3]
        assert three.events() == []
        two.disable_journal()
        assert one.prune_events(older_than=0) == 6
        put(one)
        put(two)
        assert types(one) == ["enqueued"]
        assert len(two.events()) == 3

    def test_a_journal_that_is_switched_off_stays_readable_and_goes_on_later(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store)
        store.disable_journal()
        store.disable_journal()
        assert not store.journal_enabled()
        put(store)
        assert types(store) == ["enqueued"]
        store.enable_journal()
        store.enable_journal()
        put(store)
        assert [event.seq for event in store.events()] == [1, 2]

    def test_numbers_of_pruned_entries_are_not_used_again(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal()
        put_many(store, "abc")
        clock.advance(10)
        put(store, payload="d")
        assert store.prune_events(older_than=11) == 0
        assert store.prune_events(older_than=10) == 3
        assert [event.seq for event in store.events()] == [4]
        clock.jump_back(60)
        put(store, payload="e")
        clock.advance(55)
        assert store.prune_events(older_than=0) == 1
        assert [event.seq for event in store.events()] == [4]
        clock.advance(5)
        assert store.prune_events(older_than=0) == 1
        put(store, payload="f")
        assert [(event.seq, event.payload) for event in store.events()] == [(6, "f")]

    def test_pruning_stops_at_a_number(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal()
        put_many(store, "abcd")
        assert store.prune_events(older_than=0, through=0) == 0
        assert store.prune_events(older_than=1, through=2) == 0
        assert store.prune_events(older_than=0, through=2) == 2
        assert [event.seq for event in store.events()] == [3, 4]
        assert store.prune_events(older_than=0, through=99) == 2
        assert store.journal_span() == (5, 4)

    def test_a_journal_keeps_about_as_many_entries_as_it_should(self, store: QueueStore) -> None:
        store.enable_journal(keep_events=100)
        for n in range(60):
            put_many(store, (str(n * 10 + m) for m in range(10)))
        events = store.events()
        assert 100 <= len(events) <= 300
        assert [event.payload for event in events[-100:]] == [str(n) for n in range(500, 600)]
        assert [event.seq for event in events] == list(range(601 - len(events), 601))

    def test_a_journal_lets_go_of_what_is_too_old(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal(keep_seconds=60)
        put_many(store, "x" * 200)
        clock.advance(59)
        put_many(store, "y" * 200)
        assert len(store.events()) == 400
        clock.advance(2)
        for _ in range(3):
            put_many(store, "z" * 100)
        assert {event.payload for event in store.events()} == {"y", "z"}
        store.enable_journal()
        clock.advance(1000)
        put_many(store, "w" * 300)
        assert len(store.events()) == 800

    def test_a_journal_goes_on_letting_go_after_the_clock_was_ahead_for_a_while(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        store.enable_journal(keep_seconds=60)
        clock.advance(_A_DAY)
        put_many(store, ["ahead"] * 300)
        clock.jump_back(_A_DAY)
        for n in range(20):
            put_many(store, [str(n)] * 100)
            clock.advance(20)
        kept = [event.payload for event in store.events()]
        assert "ahead" not in kept and str(20 - 2 * 60 // 20 - 3) not in kept
        assert kept[-300:] == [payload for payload in ("17", "18", "19") for _ in range(100)]

    def test_a_journal_that_counts_is_not_misled_by_the_clock(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal(keep_events=100, keep_seconds=60)
        clock.advance(_A_DAY)
        put_many(store, ["ahead"] * 300)
        clock.jump_back(_A_DAY)
        for n in range(60):
            put_many(store, [str(n)] * 10)
        kept = [event.payload for event in store.events()]
        assert 100 <= len(kept) <= 300 and "ahead" not in kept

    @pytest.mark.parametrize("before", [191, 192, 200])
    def test_one_entry_from_the_future_has_a_journal_let_go_of_nothing(
        self, store: QueueStore, clock: FakeClock, before: int
    ) -> None:
        store.enable_journal(keep_seconds=60)
        put_many(store, ["x"] * before)
        clock.advance(_A_DAY)
        put(store, payload="ahead")
        clock.jump_back(_A_DAY)
        put_many(store, ["y"] * 100)
        assert len(store.events()) == before + 101

    def test_a_journal_lets_go_once_the_clock_that_jumped_ahead_has_stayed_there(
        self, store: QueueStore, clock: FakeClock
    ) -> None:
        store.enable_journal(keep_seconds=60)
        put_many(store, ["x"] * 200)
        clock.advance(_A_DAY)
        for _ in range(40):
            put_many(store, ["y"] * 10)
        assert {event.payload for event in store.events()} == {"y"}

    @pytest.mark.parametrize("retention", [{"keep_seconds": 0}, {"keep_seconds": -1.0}, {"keep_events": 0}])
    def test_a_journal_that_could_keep_nothing_is_refused(self, store: QueueStore, retention: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="leave it out"):
            store.enable_journal(**retention)
        assert not store.journal_enabled()

    def test_a_backup_holds_the_journal_and_goes_on_with_it(
        self, store: QueueStore, harness: StoreHarness, tmp_path: Path
    ) -> None:
        store.enable_journal()
        put_many(store, "ab")
        ack(store, take(store))
        store.backup(str(tmp_path / "copy"))
        copy = harness.open_copy(str(tmp_path / "copy"))
        try:
            assert copy.events() == store.events()
            drain(copy)
            assert types(copy)[-2:] == ["leased", "acked"]
            assert copy.check().problems == ()
        finally:
            copy.close()


def _work_elsewhere(store: QueueStore) -> None:
    put(store, payload="elsewhere")
    drain(store)


class SharedJournalContract:
    """The switch is in the store: whoever changes a message writes the journal."""

    def test_a_store_that_was_open_before_obeys_the_switch(self, open_store: OpenStore) -> None:
        here, there = open_store(), open_store()
        put(there)
        drain(there)
        here.enable_journal()
        assert there.journal_enabled()
        put(there)
        drain(there)
        assert types(here) == ["enqueued", "leased", "acked"]
        there.disable_journal()
        put(here)
        assert len(here.events()) == len(there.events()) == 3

    def test_the_journal_survives_reopening(self, open_store: OpenStore) -> None:
        first = open_store()
        first.enable_journal()
        put(first)
        first.close()
        second = open_store()
        assert second.journal_enabled()
        drain(second)
        assert types(second) == ["enqueued", "leased", "acked"]

    @pytest.mark.multiprocess
    def test_another_process_writes_the_same_journal(self, harness: StoreHarness, open_store: OpenStore) -> None:
        store = open_store()
        store.enable_journal()
        put(store, payload="here")
        process = harness.in_process(_work_elsewhere)
        process.join(2 * PATIENCE)
        assert process.exitcode == 0
        assert types(store) == ["enqueued", "enqueued", "leased", "acked", "leased", "acked"]
        assert [event.seq for event in store.events()] == [1, 2, 3, 4, 5, 6]
        assert replay(store.events()).differences(store) == [] == store.scan("jobs")
