"""Strange names and values: stored and given back as they were, or refused, but never interpreted."""

from __future__ import annotations

import contextlib
import json

import pytest

from localqueue.contracts.steps import ack, assert_sound, counts, drain, lease, new, put, stored, take
from localqueue.errors import QueueError
from localqueue.stores.port import Changes, Limit, QueueStore, RecordWrite

STRANGE = {
    "quote": "'; DROP TABLE messages; --",
    "double quote": '"a" OR ""=""',
    "newline": "a\nb\r\nc",
    "dollar": "$1 $where {$ne: 1}",
    "braces": "{} {0} {{x}} %s %(a)s :name ?",
    "nul": "a\x00b",
    "only nul": "\x00",
    "separators": "a:b/c.d|e,f;g",
    "blank": " ",
    "emoji": "🦄 naïve 日本語 \u202e",
    "long": "x" * 10_000,
    "long and wide": "日" * 10_000,
    "surrogate": "a\ud800b",
    "glob": "*?[a-z]\\",
}
VALUES = pytest.mark.parametrize("text", STRANGE.values(), ids=STRANGE.keys())


class PayloadContract:
    @VALUES
    def test_a_strange_text_is_a_payload_like_any_other(self, store: QueueStore, text: str) -> None:
        put(store, payload="before")
        with contextlib.suppress(ValueError, QueueError):
            message_id = put(store, payload=text)
            assert stored(store, message_id).payload == text
        expected = [message.payload for message in store.scan("jobs")]
        assert set(expected) <= {"before", text}
        assert drain(store) == expected
        assert_sound(store)

    @pytest.mark.parametrize("value", [b"", b"\x00", b"\xff\xfe\x00", bytes(range(256)) * 40, "", "0", "1e5", "null"])
    def test_bytes_stay_bytes_and_text_stays_text(self, store: QueueStore, value: str | bytes) -> None:
        put(store, payload=value)
        message = take(store)
        assert message.payload == stored(store, message.id).payload == value
        assert type(message.payload) is type(value)

    def test_a_payload_of_megabytes_comes_back_whole(self, store: QueueStore) -> None:
        big = bytes(range(256)) * 16_384
        put(store, payload=big)
        assert take(store).payload == big

    @VALUES
    def test_a_strange_queue_name_is_a_queue_of_its_own_or_refused(self, store: QueueStore, text: str) -> None:
        put(store, "jobs", "mine")
        try:
            put(store, text, "theirs")
        except (ValueError, QueueError):
            assert store.queues() == ["jobs"]
            return
        assert sorted(store.queues()) == sorted(["jobs", text])
        assert counts(store, text) == counts(store) == {"ready": 1}
        assert store.commit(Changes(enqueue=[new(store, text)], limits={text: Limit(5)})).enqueued
        store.pause(text)
        assert lease(store, text) == []
        store.resume(text)
        message = take(store, text)
        assert (message.queue, message.payload) == (text, "theirs")
        assert ack(store, message)
        with store.listen([text]) as waiter:
            assert waiter.wait(0)
        assert store.purge(text) == 1
        assert drain(store) == ["mine"]
        assert_sound(store, ["jobs", text])

    @VALUES
    def test_a_strange_key_is_a_key_of_its_own_or_refused(self, store: QueueStore, text: str) -> None:
        plain = put(store, payload="plain", dedupe_key="d", ordering_key="o", run_id="r")
        keys = {"dedupe_key": text, "ordering_key": text, "run_id": text}
        headers = json.dumps({text: text}, ensure_ascii=False)
        try:
            strange = put(store, payload="strange", headers=headers, **keys)
        except (ValueError, QueueError):
            assert counts(store) == {"ready": 1}
            assert_sound(store)
            return
        again = store.commit(Changes(enqueue=[new(store, dedupe_key=text)])).enqueued[0]
        assert again.outcome == "duplicate"
        assert again.existing == stored(store, strange)
        assert (stored(store, strange).ordering_key, stored(store, strange).headers) == (text, headers)
        run = store.run(text)
        assert run is not None
        assert (run.run_id, run.total) == (text, 1)
        put(store, payload="behind", ordering_key=text)
        assert counts(store) == {"ready": 2, "blocked": 1}
        assert store.cancel_run(text) == 1
        assert [message.payload for message in lease(store, limit=5)] == ["plain", "behind"]
        assert stored(store, plain).state == "inflight"
        assert_sound(store)

    @VALUES
    def test_a_strange_worker_error_or_record_is_kept_or_refused(self, store: QueueStore, text: str) -> None:
        put(store)
        with contextlib.suppress(ValueError, QueueError):
            message = take(store, leased_by=text)
            assert store.stats("jobs").by_worker_id == {text: 1}
            assert store.stats("jobs").leases_by_worker_id == {text: 1}
            store.heartbeat("jobs", text)
            assert text in store.stats("jobs").last_seen_by_worker_id
            assert ack(store, message)
        with contextlib.suppress(ValueError, QueueError):
            store.commit(Changes(records=[RecordWrite(text, text, b"1")]))
            record = store.record(text, text)
            assert record is not None
            assert (record.kind, record.key) == (text, text)
            assert store.records(text) == [record]
        with contextlib.suppress(ValueError, QueueError):
            assert store.subscribe(text, text)
            assert store.subscriptions(text).subscribers == (text,)
        assert store.record("other", "other") is None
        assert_sound(store)

    def test_keys_that_look_alike_are_not_the_same(self, store: QueueStore) -> None:
        alike = ["a", "A", "a ", " a", "a\x00", "á", "a\u0301", "1", "01", "1.0", "%", "_", "*"]
        for key in alike:
            put(store, payload=key, dedupe_key=key, ordering_key=key)
        assert counts(store) == {"ready": len(alike)}
        for key in alike:
            put(store, key)
        assert sorted(store.queues()) == sorted([*alike, "jobs"])
