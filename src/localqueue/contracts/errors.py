"""Errors that a message is settled with: whatever they are, the message is settled, and what is kept has a bound."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue.contracts.steps import assert_sound, dead_letter, new, override, put, release, stored, take
from localqueue.stores.kept_error import ERROR_LIMIT, error_text
from localqueue.stores.port import HISTORY_LIMIT, Changes, QueueStore, StoredMessage

MEGABYTE = 1_000_000
LONG = "beginning " + "x" * MEGABYTE + " end"


class _Unprintable:
    def __str__(self) -> str:
        raise ValueError("no text")


def _circle() -> dict[str, Any]:
    error: dict[str, Any] = {"message": "round"}
    error["cause"] = error
    return error


def _deep() -> dict[str, Any]:
    error: dict[str, Any] = {"message": "bottom"}
    for _ in range(100_000):
        error = {"message": "level", "cause": error}
    return error


LONG_ERRORS: dict[str, dict[str, Any]] = {
    "message": {"type": "E", "module": "m", "message": LONG},
    "huge": {"type": "E", "module": "m", "message": LONG * 20},
    "traceback": {"type": "E", "module": "m", "message": "no", "traceback": LONG},
    "nested": {"type": "E", "module": "m", "message": "no", "cause": {"notes": [LONG, "short"]}},
    "wide": {"type": "E", "module": "m", "message": "no", "values": ["x" * 100] * 50_000},
    "many": {"type": "E", "module": "m", "message": "no", **{f"field {n}": "x" * 100 for n in range(50_000)}},
    "many long": {"type": "E", "module": "m", "message": "no", **{f"field {n}": "x" * 10_000 for n in range(500)}},
    "emoji": {"type": "E", "module": "m", "message": "🦄" * 100_000},
    "surrogates": {"type": "E", "module": "m", "message": "\udc80" * 100_000},
    "long key": {"type": "E", "module": "m", "message": "no", LONG: "x"},
}
ODD_ERRORS: dict[str, dict[Any, Any]] = {
    "surrogate": {"type": "E", "module": "m", "message": "a\udc80b"},
    "nul": {"type": "E", "module": "m", "message": "a\0b", "a\0b": "\0"},
    "unprintable": {"type": "E", "module": "m", "message": _Unprintable()},
    "key": {"type": "E", "module": "m", "message": "no", (1, 2): "x"},
    "number": {"type": "E", "module": "m", "message": "no", "n": 10**5000},
    "infinite": {"type": "E", "module": "m", "message": "no", "n": float("inf")},
    "bytes": {"type": "E", "module": "m", "message": "no", "stderr": b"\xff\x00"},
    "circle": _circle(),
    "deep": _deep(),
    "empty": {},
}


def size_of(error: Any) -> int:
    text = error_text(error)
    assert text is not None
    return len(text)


def assert_bounded(message: StoredMessage) -> None:
    errors = [message.last_error, *(event["last_error"] for event in message.history if "last_error" in event)]
    assert errors and all(size_of(error) <= ERROR_LIMIT for error in errors)


class ErrorContract:
    @pytest.mark.parametrize("error", LONG_ERRORS.values(), ids=LONG_ERRORS)
    def test_an_error_of_any_length_is_kept_up_to_its_limit(self, store: QueueStore, error: dict[str, Any]) -> None:
        put(store)
        with store.observe() as seen:
            assert release(store, take(store), error=error)
        message = take(store)
        assert message == stored(store, message.id)
        assert_bounded(message)
        assert message.last_error is not None
        assert (message.last_error["type"], message.last_error["module"]) == ("E", "m")
        assert "left out" in str(message.last_error)
        assert [one.error for one in seen] == [message.last_error]
        assert dead_letter(store, message, error=error)
        assert_bounded(stored(store, message.id))
        assert_sound(store)

    def test_a_long_text_keeps_its_beginning_and_its_end(self, store: QueueStore) -> None:
        override(store, put(store), "dead-letter", error={"message": LONG, "cause": {"text": LONG}})
        (dead,) = store.scan("jobs")
        assert dead.last_error is not None
        for text in (dead.last_error["message"], dead.last_error["cause"]["text"]):
            assert text.startswith("beginning xxx") and text.endswith("xxx end")
            assert f"{len(LONG) - 8 * 1024} characters left out" in text

    def test_an_error_within_the_limit_is_kept_as_it_is(self, store: QueueStore) -> None:
        error = {"type": "E", "module": None, "message": "x" * 30_000, "cause": {"notes": ["a", 1, 2.5, None, True]}}
        assert size_of(error) <= ERROR_LIMIT
        put(store)
        release(store, take(store), error=error)
        assert take(store).last_error == error

    @pytest.mark.parametrize("error", ODD_ERRORS.values(), ids=ODD_ERRORS)
    def test_an_error_of_any_kind_settles_its_message(self, store: QueueStore, error: dict[str, Any]) -> None:
        put(store)
        assert release(store, take(store), error=error)
        message = take(store)
        assert message == stored(store, message.id)
        assert_bounded(message)
        assert message.last_error is not None
        if isinstance(error.get("message"), str) and error["message"] != "level":
            assert message.last_error["message"] == error["message"]
        assert dead_letter(store, message, error=error)
        assert_sound(store)

    def test_the_errors_of_all_attempts_together_have_a_bound(self, store: QueueStore) -> None:
        put(store)
        for _ in range(HISTORY_LIMIT + 2):
            assert release(store, take(store), error=LONG_ERRORS["message"])
        message = take(store)
        assert_bounded(message)
        assert len(message.history) == 2 * HISTORY_LIMIT + 1

    def test_the_errors_of_a_past_have_the_same_bound(self, store: QueueStore) -> None:
        put(store)
        release(store, take(store), error={"message": "short"})
        past = take(store)
        released = {**past.history[1], "last_error": LONG_ERRORS["message"]}
        past = past._replace(state="ready", last_error=LONG_ERRORS["nested"], history=(past.history[0], released))
        copy = new(store, "copies", past=past)
        store.commit(Changes(enqueue=[copy]))
        message = take(store, "copies")
        assert message == stored(store, copy.id, "copies")
        assert_bounded(message)
        assert_sound(store, ["jobs", "copies"])

    def test_the_journal_has_the_error_that_was_kept(self, store: QueueStore) -> None:
        store.enable_journal()
        put(store)
        release(store, take(store), error=LONG_ERRORS["message"])
        dead_letter(store, take(store), error=LONG_ERRORS["nested"])
        errors = [event.error for event in store.events() if event.error is not None]
        assert len(errors) == 2 and all(size_of(error) <= ERROR_LIMIT for error in errors)
