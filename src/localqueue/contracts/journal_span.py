"""How far a journal reaches: the first entry that is kept, and the last that was written."""

from __future__ import annotations

import threading
from collections.abc import Callable

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import Background, drain, put, put_many
from localqueue.stores.port import Changes, QueueStore, RecordWrite

OpenStore = Callable[..., QueueStore]


class JournalSpanContract:
    def test_a_journal_without_entries_reaches_nowhere(self, store: QueueStore) -> None:
        assert store.journal_span() == (1, 0)
        put(store)
        assert store.journal_span() == (1, 0)
        store.enable_journal()
        assert store.journal_span() == (1, 0)

    def test_the_span_is_that_of_the_entries(self, store: QueueStore) -> None:
        store.enable_journal()
        put_many(store, "ab")
        assert store.journal_span() == (1, 2)
        drain(store)
        assert store.journal_span() == (1, 6)
        store.put_one("other", "x", None)
        store.commit(Changes(records=[RecordWrite("kind", "key", b"")]))
        assert store.journal_span() == (1, 7)
        store.disable_journal()
        put(store)
        assert store.journal_span() == (1, 7)
        store.enable_journal()
        put(store)
        assert store.journal_span() == (1, 8)

    def test_the_span_grows_where_entries_are_removed(self, store: QueueStore, clock: FakeClock) -> None:
        store.enable_journal()
        put_many(store, "abc")
        clock.advance(10)
        put(store)
        store.prune_events(older_than=10)
        assert store.journal_span() == (4, 4)
        store.prune_events(older_than=0)
        assert store.journal_span() == (5, 4)
        store.disable_journal()
        assert store.journal_span() == (5, 4)
        store.enable_journal(keep_events=20)
        assert store.journal_span() == (5, 4)
        for _ in range(20):
            put_many(store, "x" * 10)
        first, last = store.journal_span()
        assert (first, last) == (store.events()[0].seq, 204)
        assert first > 5

    def test_each_namespace_has_its_own_span(self, open_store: OpenStore) -> None:
        stores = [open_store(namespace=name) for name in ("one", "two", "three")]
        for n, store in enumerate(stores):
            store.enable_journal()
            put_many(store, "x" * (n + 1))
        stores[1].prune_events(older_than=0)
        assert [store.journal_span() for store in stores] == [(1, 1), (3, 2), (1, 3)]

    def test_what_the_span_reaches_is_there_while_others_write(self, live: QueueStore) -> None:
        """Whoever reads up to the last number and goes on behind it misses nothing."""
        live.enable_journal()
        done = threading.Event()
        seen: list[int] = []
        spans = [(1, 0)]

        def follow() -> None:
            while True:
                last_round = done.is_set()
                before, span = spans[-1], live.journal_span()
                assert span >= before and span[1] >= before[1]
                spans.append(span)
                seen.extend(event.seq for event in live.events(before[1], span[1] - before[1]))
                if last_round:
                    return

        def write(name: str) -> None:
            for n in range(15):
                live.put_one(name, str(n), None)
                put_many(live, "ab", name, priority=1)

        reader, writers = Background(), Background()
        reader.start(follow)
        for name in "abc":
            writers.start(write, name)
        writers.join()
        done.set()
        reader.join()
        assert seen == list(range(1, 136))
        assert spans[-1] == (1, 135)
