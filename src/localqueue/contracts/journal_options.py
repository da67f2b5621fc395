"""The options of an enqueued message in the journal: with its payload they are enough to put it again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localqueue.contracts.harness import FakeClock, StoreHarness
from localqueue.contracts.steps import (
    ack,
    dead_letter,
    new,
    override,
    put,
    put_limited,
    put_many,
    release,
    stored,
    take,
)
from localqueue.events.journal import JournalEvent
from localqueue.stores.port import Changes, Limit, NewMessage, QueueStore, StoredMessage

OpenStore = Callable[..., QueueStore]

_SOME: dict[str, dict[str, Any]] = {
    "priority": {"priority": 7},
    "low priority": {"priority": -(1 << 50) - 1},
    "dedupe key": {"dedupe_key": "d"},
    "ordering key": {"ordering_key": "o"},
    "run": {"run_id": "r"},
    "headers": {"headers": {"trace": "1", "emptied": ""}},
    "delay": {"delay": 2.5},
    "life": {"ttl": 60.0},
    "hostile texts": {
        "dedupe_key": "\x00'\"\\é€😀",
        "ordering_key": '"},{"',
        "run_id": "\x1f\n",
        "headers": {"\x00": "'\"\\é€😀", "nul": "\x00"},
    },
    "all": {
        "priority": -3,
        "dedupe_key": "d",
        "ordering_key": "o",
        "run_id": "r",
        "headers": {"trace": "1"},
        "delay": 0.1,
        "ttl": 3600.0,
    },
}


def asked(options: dict[str, Any]) -> dict[str, Any]:
    """Options of an entry as a `NewMessage` takes them."""
    headers = options.get("headers")
    return options if headers is None else {**options, "headers": json.dumps(headers)}


def enqueued(store: QueueStore, **options: Any) -> list[JournalEvent]:
    return [event for event in store.events(**options) if event.type == "enqueued"]


def _what_counts(message: StoredMessage) -> tuple[Any, ...]:
    """A message apart from its id, with its times as they were asked for."""
    return (
        *(message.queue, message.state, message.payload, message.codec, message.priority, message.dedupe_key),
        *(message.ordering_key, message.run_id, None if message.headers is None else json.loads(message.headers)),
        pytest.approx(message.available_at - message.created_at, abs=1e-5),
        None if message.expires_at is None else pytest.approx(message.expires_at - message.created_at, abs=1e-5),
    )


class JournalOptionsContract:
    @pytest.mark.parametrize("options", _SOME.values(), ids=_SOME)
    def test_an_entry_keeps_the_options_that_were_given(self, live: QueueStore, options: dict[str, Any]) -> None:
        live.enable_journal()
        put(live, **asked(options))
        (entry,) = live.events()
        assert entry.options == options
        put_many(live, "ab", "other", **asked({name: options[name] for name in options if name != "dedupe_key"}))
        expected = {name: value for name, value in options.items() if name != "dedupe_key"} or None
        assert [event.options for event in enqueued(live, queue="other")] == [expected] * 2

    def test_a_message_without_options_has_none_in_its_entry(self, store: QueueStore) -> None:
        store.enable_journal()
        store.put_one("jobs", "x", None)
        store.put_batch("jobs", ["x", b"x"], "raw")
        put(store)
        put(store, after=(put(store),))
        put_limited(store, Limit(100))
        assert [event.options for event in enqueued(store)] == [None] * 7

    def test_only_an_enqueued_message_has_options(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store, **asked(_SOME["all"] | {"delay": 0.0}))
        release(store, take(store), error={"type": "E"})
        dead_letter(store, take(store))
        store.requeue("jobs")
        ack(store, take(store))
        assert [event.options for event in store.events()[1:]] == [None] * 7

    def test_the_messages_of_one_commit_keep_their_own(self, store: QueueStore) -> None:
        store.enable_journal()
        first, *rest = store.mint(4)
        messages = [
            NewMessage(first, "a", "1", priority=1),
            NewMessage(rest[0], "b", "2", ttl=5.0, after=(first,)),
            NewMessage(rest[1], "c", "3"),
            NewMessage(rest[2], "c", "4", dedupe_key="d"),
        ]
        store.commit(Changes(enqueue=messages))
        kept = {event.message_id: event.options for event in store.events()}
        assert kept == {first: {"priority": 1}, rest[0]: {"ttl": 5.0}, rest[1]: None, rest[2]: {"dedupe_key": "d"}}

    def test_a_diverted_message_keeps_its_options(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store)
        limit = Limit(1, "overflow-queue", "spill")
        assert put_limited(store, limit, priority=2, headers='{"a":"b"}').outcome == "diverted"
        (entry,) = store.events(queue="spill")
        assert entry.options == {"priority": 2, "headers": {"a": "b"}}

    def test_a_message_without_life_left_has_its_options_before_it_expires(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store, ttl=0.0)
        assert [(event.type, event.options) for event in store.events()] == [
            ("enqueued", {"ttl": 0.0}),
            ("expired", None),
        ]

    def test_times_of_a_message_with_a_past_count_from_when_it_came(self, store: QueueStore, clock: FakeClock) -> None:
        put(store, delay=50.0, ttl=100.0, headers='{"a":"b"}')
        put(store, delay=5.0, priority=3)
        override(store, put(store, ttl=4.0, run_id="r"), "dead-letter", error={"type": "E"})
        past = store.scan("jobs")
        clock.advance(10)
        store.enable_journal()
        for one in past:
            how = {"priority": one.priority, "headers": one.headers, "run_id": one.run_id}
            store.commit(Changes(enqueue=[new(store, "there", one.payload, past=one, **how)]))
        told = [(event.type, event.options) for event in store.events()]
        assert told == [
            ("enqueued", {"headers": {"a": "b"}, "delay": 40.0, "ttl": 90.0}),
            ("enqueued", {"priority": 3}),
            ("enqueued", {"run_id": "r", "ttl": 0.0}),
            ("dead_lettered", None),
        ]

    def test_what_was_put_is_rebuilt_from_the_journal(self, open_store: OpenStore, clock: FakeClock) -> None:
        here, there = (open_store(namespace=name, clock=clock) for name in ("here", "there"))
        here.enable_journal()
        for options in ({}, *_SOME.values()):
            put(here, **{**asked(options), "dedupe_key": options.get("dedupe_key", "") + str(len(here.scan("jobs")))})
        here.put_batch("plain", [b"\x00", "é"], "raw")
        for event in enqueued(here):
            assert event.payload is not None
            put(there, event.queue, event.payload, codec=event.codec, **asked(event.options or {}))
        for queue in ("jobs", "plain"):
            rebuilt, original = there.scan(queue), here.scan(queue)
            assert len(rebuilt) == len(original) > 1
            assert [_what_counts(one) for one in rebuilt] == [_what_counts(one) for one in original]

    def test_a_backup_holds_the_options(self, store: QueueStore, harness: StoreHarness, tmp_path: Path) -> None:
        store.enable_journal()
        for options in _SOME.values():
            message_id = put(store, **asked(options))
            assert stored(store, message_id)
            store.purge("jobs")
        store.put_one("jobs", "x", None)
        store.backup(str(tmp_path / "copy"))
        copy = harness.open_copy(str(tmp_path / "copy"))
        try:
            assert copy.events() == store.events()
            assert [event.options for event in enqueued(copy)] == [*_SOME.values(), None]
        finally:
            copy.close()
