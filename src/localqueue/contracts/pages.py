"""Messages by columns, page by page: one commit, which decides what a commit of the same messages decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock
from localqueue.contracts.steps import assert_sound, counts, drain, payloads, put
from localqueue.errors import QueueFull, RecordConflict, RunCancelled, SubscriptionsChanged
from localqueue.stores.port import (
    Changes,
    LeaseRequest,
    Limit,
    NewMessage,
    Page,
    QueueStore,
    RecordWrite,
    StoredMessage,
)
from localqueue.stores.receipts import read_receipt


def page(first: int, count: int, **options: Any) -> Page:
    return Page([str(n) for n in range(first, first + count)], options.pop("queue", "jobs"), **options)


def keyed(*keys: str | None, queue: str = "jobs") -> Page:
    return Page([str(key) for key in keys], queue, dedupe_key=list(keys))


def seen(store: QueueStore, queue: str = "jobs") -> list[tuple[Any, ...]]:
    """What a queue holds, but for ids."""
    return [
        (one.payload, one.state, one.priority, one.dedupe_key, one.ordering_key, one.headers, one.run_id, one.codec,
         one.available_at - one.created_at)
        for one in store.scan(queue)
    ]  # fmt: skip


class PageContract:
    def test_pages_are_stored_in_order_with_their_records(self, store: QueueStore, clock: FakeClock) -> None:
        done = store.put_pages(
            [page(0, 3), page(3, 0), page(3, 2, codec="raw")], records=[RecordWrite("sink", "done", b"1", 0)]
        )
        assert done == (clock(), 5, 0, 0)
        assert drain(store) == ["0", "1", "2", "3", "4"]
        with pytest.raises(RecordConflict):
            store.put_pages([page(5, 300)], records=[RecordWrite("sink", "done", b"1", 0)])
        assert counts(store) == {}
        assert store.put_pages([], records=[RecordWrite("sink", "other", b"1")]).stored == 0
        assert_sound(store)

    @pytest.mark.parametrize("journal", [False, True])
    def test_each_message_has_its_own_options(self, store: QueueStore, journal: bool) -> None:
        if journal:
            store.enable_journal()
        size = 250
        numbers = range(size)
        options: dict[str, list[Any]] = {
            "queue": ["other" if n % 10 == 7 else "jobs" for n in numbers],
            "delay": [float(n % 3 == 0) * 60 for n in numbers],
            "priority": [n % 4 for n in numbers],
            "dedupe_key": [None if n % 5 == 0 else f"d{n // 2}" for n in numbers],
            "ordering_key": [None if n % 2 == 0 else f"o{n % 9}" for n in numbers],
            "headers": [None if n % 3 else '{"a":"b"}' for n in numbers],
            "run_id": [None if n % 50 else "run" for n in numbers],
        }
        whole = page(0, size, **options)
        parts = [{name: column[piece] for name, column in options.items()} for piece in (slice(100), slice(100, None))]
        done = store.put_pages([page(0, 100, **parts[0]), page(100, size - 100, **parts[1])])
        by_pages = {name: seen(store, name) for name in ("jobs", "other")}
        for name in by_pages:
            store.purge(name)
        outcomes = [one.outcome for one in store.commit(Changes(whole.messages(store.mint(size)))).enqueued]
        assert by_pages == {name: seen(store, name) for name in ("jobs", "other")}
        assert (done.stored, done.duplicates) == (outcomes.count("stored"), outcomes.count("duplicate"))
        assert done.duplicates > 0
        assert_sound(store)

    @pytest.mark.parametrize("size", [3, 300])
    def test_a_dedupe_key_that_is_held_makes_a_duplicate(self, store: QueueStore, clock: FakeClock, size: int) -> None:
        keys = [f"k{n}" for n in range(size)]
        put(store, payload="held", dedupe_key="k1")
        put(store, payload="outlived", dedupe_key="k2", ttl=5.0)
        put(store, queue="other", payload="elsewhere", dedupe_key="k0")
        done = store.put_pages([keyed(*keys), keyed("k0", None, None, "new", "new")])
        assert (done.stored, done.duplicates) == (size - 2 + 3, 2 + 2)
        clock.advance(6)
        done = store.put_pages([keyed(*keys)])
        assert (done.stored, done.duplicates) == (1, size - 1), "one whose life is over gives up its key"
        assert store.put_pages([keyed("k0", "k0", "k1", queue="other")])[1:3] == (1, 2)
        assert_sound(store)

    def test_a_commit_tells_of_each_duplicate_whom_it_stands_for(self, store: QueueStore) -> None:
        put(store, payload="held", dedupe_key="a")
        leased = store.lease(LeaseRequest("jobs"))
        ids = store.mint(4)
        keys = ["a", "b", "b", None]
        done = store.commit(
            Changes([NewMessage(one, "jobs", one, dedupe_key=key) for one, key in zip(ids, keys, strict=True)])
        ).enqueued
        assert [one.outcome for one in done] == ["duplicate", "stored", "duplicate", "stored"]
        assert [one.state for one in done] == ["inflight", "ready", "ready", "ready"]
        assert done[0].existing is not None and done[2].existing is not None
        assert (done[0].existing.id, done[2].existing.payload) == (leased[0].id, ids[1])
        assert done[1].existing is None
        assert_sound(store)

    def test_messages_of_an_ordering_key_line_up_across_pages(self, store: QueueStore) -> None:
        put(store, payload="first", ordering_key="a")
        line = [Page([f"{n}{key}" for key in "ab"], "jobs", ordering_key=["a", "b"]) for n in range(3)]
        assert store.put_pages(line).stored == 6
        assert counts(store) == {"ready": 2, "blocked": 5}
        done = drain(store)
        assert [one for one in done if "b" not in str(one)] == ["first", "0a", "1a", "2a"]
        assert [one for one in done if "b" in str(one)] == ["0b", "1b", "2b"]
        assert_sound(store)

    def test_a_full_queue_refuses_all_of_them_and_counts_what_came_before(self, store: QueueStore) -> None:
        put(store, payload="there")
        limits = {"jobs": Limit(6)}
        with pytest.raises(QueueFull):
            store.put_pages([page(0, 3), page(3, 3)], records=[RecordWrite("sink", "x", b"1")], limits=limits)
        assert counts(store) == {"ready": 1} and store.record("sink", "x") is None
        store.put_pages([page(0, 3), page(3, 2)], limits=limits)
        with pytest.raises(QueueFull):
            store.put_pages([page(9, 1, delay=[60.0])], limits=limits)
        assert store.put_pages([keyed(queue="other")], limits=limits).stored == 0
        assert store.put_pages([page(9, 1, queue="other")], limits=limits).stored == 1
        assert_sound(store)

    def test_duplicates_take_no_room(self, store: QueueStore) -> None:
        put(store, payload="there", dedupe_key="a")
        limits = {"jobs": Limit(3)}
        assert store.put_pages([keyed("a", "b", "b", "c"), keyed("c", "a")], limits=limits)[1:3] == (2, 4)
        ids = store.mint(2)
        twice = [NewMessage(one, "jobs", "x", dedupe_key=key) for one, key in zip(ids, "ab", strict=True)]
        assert [one.outcome for one in store.commit(Changes(twice, limits=limits)).enqueued] == ["duplicate"] * 2
        with pytest.raises(QueueFull):
            store.put_pages([keyed("a", "d")], limits=limits)
        assert_sound(store)

    def test_what_overflows_is_dropped_or_taken_elsewhere(self, store: QueueStore) -> None:
        done = store.put_pages([page(0, 3), page(3, 2)], limits={"jobs": Limit(4, "drop-newest")})
        assert done[1:] == (4, 0, 1)
        done = store.put_pages([page(5, 2)], limits={"jobs": Limit(5, "overflow-queue", "spare")})
        assert done[1:] == (2, 0, 0) and payloads(store.scan("spare")) == ["6"]
        assert_sound(store)

    def test_subscribers_that_have_changed_refuse_all_of_them(self, store: QueueStore) -> None:
        store.subscribe("news", "a")
        version = store.subscriptions("news").version
        copies = Page(["1", "1"], ["a", "b"])
        assert store.put_pages([copies], topics={"news": version}).stored == 2
        store.subscribe("news", "c")
        with pytest.raises(SubscriptionsChanged):
            store.put_pages([copies], topics={"news": version})
        assert payloads(store.scan("a")) == ["1"]

    def test_messages_of_a_run_are_counted_and_one_that_is_cancelled_refuses_them(self, store: QueueStore) -> None:
        store.put_pages([page(0, 300, run_id=["r"] * 300), page(300, 2, run_id=["s", None])])
        run, other = store.run("r"), store.run("s")
        assert run is not None and other is not None and (run.total, other.total) == (300, 1)
        store.cancel_run("r")
        with pytest.raises(RunCancelled):
            store.put_pages([page(0, 1), page(0, 2, run_id=["r", "r"])])
        assert len(store.scan("jobs")) == 302
        assert_sound(store)

    def test_what_makes_the_pages_may_read_the_store_and_its_error_undoes_all(self, store: QueueStore) -> None:
        store.commit(Changes(records=[RecordWrite("stage", str(n), str(n).encode()) for n in range(3)]))

        class Staged:
            def __init__(self, count: int) -> None:
                self.count = count

            def __iter__(self) -> Iterator[Page]:
                for n in range(self.count):
                    record = store.record("stage", str(n))
                    if record is None:
                        raise KeyError(n)
                    yield Page([record.value.decode()], "jobs", dedupe_key=[f"k{n}"])

        with pytest.raises(KeyError):
            store.put_pages(Staged(4))
        assert counts(store) == {}
        removed = [RecordWrite("later", "done", b"")]
        assert store.put_pages(Staged(3), records=removed).stored == 3
        assert payloads(store.scan("jobs")) == ["0", "1", "2"]

    def test_a_message_with_a_past_keeps_it(self, store: QueueStore) -> None:
        now = store.now()
        dead = StoredMessage(
            "", "jobs", "dead", "", None, 0, 2, now - 5, now - 5, last_error={"type": "Bad"}, failed_at=now - 1
        )
        done = store.put_pages([page(0, 2, past=[dead, None], dedupe_key=["a", "a"]), page(2, 1, dedupe_key=["a"])])
        assert (done.stored, done.duplicates) == (2, 1), "a dead letter holds no dedupe key"
        letter, live = store.scan("jobs")
        assert (letter.payload, letter.state, letter.attempts, live.state) == ("0", "dead", 2, "ready")
        assert letter.last_error is not None and letter.last_error["type"] == "Bad"
        assert_sound(store)

    def test_a_receipt_says_where_the_messages_are_and_is_written_with_them(self, store: QueueStore) -> None:
        put(store, payload="before", dedupe_key="k0")
        pages = [
            keyed("k0", "k1", None, "k1"),
            page(0, 300, queue=["other" if n % 2 else "jobs" for n in range(300)], ordering_key=["x"] * 300),
            page(300, 2, queue="full"),
        ]
        limits = {"full": Limit(1, "overflow-queue", "spare")}
        store.put_pages(pages, limits=limits, receipt=("receipts", "mine"))
        put(store, payload="after")
        record = store.record("receipts", "mine")
        assert record is not None
        found = [
            one.payload
            for place in read_receipt(record.value)
            for one in store.scan(place.queue, after=place.after, until=place.until)
        ]
        assert sorted(map(str, found)) == sorted(["k1", "None", *map(str, range(302))])
        with pytest.raises(RecordConflict):
            store.put_pages([page(0, 1)], records=[RecordWrite("x", "y", b"", 7)], receipt=("receipts", "no"))
        assert store.record("receipts", "no") is None
        store.put_pages([], receipt=("receipts", "nothing"))
        empty = store.record("receipts", "nothing")
        assert empty is not None and read_receipt(empty.value) == []

    def test_records_are_read_as_they_were_before(self, store: QueueStore) -> None:
        store.commit(Changes(records=[RecordWrite("stage", "0", b"0")]))

        class Staged:
            def __iter__(self) -> Iterator[Page]:
                record = store.record("stage", "0")
                assert record is not None, "its removal is no earlier than what is made of it"
                yield Page([record.value.decode()], "jobs")

        assert store.put_pages(Staged(), records=[RecordWrite("stage", "0", None)]).stored == 1
        assert payloads(store.scan("jobs")) == ["0"] and store.record("stage", "0") is None

    def test_pages_that_are_none_are_refused(self, store: QueueStore) -> None:
        wrong: list[Any] = [
            iter([page(0, 1)]),
            page(0, 1),
            [["1"]],
            [page(0, 2, priority=[1])],
            [page(0, 1, dedupe_key=[1])],
            [page(0, 1, delay=["1"])],
            [page(0, 1, headers=["[]"])],
        ]
        for one in wrong:
            with pytest.raises((TypeError, ValueError)):
                store.put_pages(one)
        assert counts(store) == {}
