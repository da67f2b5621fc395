"""What `Limits` take and refuse, and under which key a limit is held."""

from __future__ import annotations

from typing import Any

import pytest

from localqueue import MemoryQueueStore, PersistentQueue
from localqueue.limits import Limited, Limits, Rate
from localqueue.policies import AtMostOnceDelivery
from localqueue.workers import AsyncWorker, Worker


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("10/s", Rate(10, 1.0)),
        ("100/m", Rate(100, 60.0)),
        ("5/2s", Rate(5, 2.0)),
        ("1000/h", Rate(1000, 3600.0)),
        ("2/day", Rate(2, 86400.0)),
        ("1 / 0.5 s", Rate(1, 0.5)),
        ("3/minute", Rate(3, 60.0)),
        ((7, 1.5), Rate(7, 1.5)),
    ],
)
def test_a_rate_is_a_count_in_a_time(written: Any, meant: Rate) -> None:
    assert Limits(rate=written).starts == meant


@pytest.mark.parametrize(
    "rate", ["", "10", "s", "10/", "/s", "10/w", "-1/s", "1.5/s", "0/s", "1/0s", "2000000/s", "1/999d", (0, 1), (1, 0)]
)
def test_what_is_no_rate_is_refused_and_shown(rate: Any) -> None:
    with pytest.raises(ValueError, match="rate=") as refusal:
        Limits(rate=rate)
    assert repr(rate) in str(refusal.value)


@pytest.mark.parametrize("rate", [10, 1.5, True, ["10/s"], (1,), ("1", "s"), (1.5, 1), (1, "s"), b"10/s"])
def test_a_rate_of_another_type_is_refused(rate: Any) -> None:
    with pytest.raises(TypeError):
        Limits(rate=rate)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({}, ValueError, "limit nothing"),
        ({"concurrency": 0}, ValueError, "at least 1"),
        ({"concurrency": 100_000}, ValueError, "at most"),
        ({"concurrency": 1.5}, TypeError, "integer"),
        ({"concurrency": True}, TypeError, "integer"),
        ({"concurrency": 1, "key": "user"}, TypeError, "function"),
    ],
)
def test_limits_that_could_not_be_kept_are_refused(given: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        Limits(**given)


def test_each_name_and_each_key_has_a_record_of_its_own() -> None:
    limits = Limits(concurrency=1)
    keys = [None, "", "a", "b", "a\x1fb", "a\x00", "x" * 2000, "y" * 2000, "\ud800", "é"]
    records = [Limited(name, limits, key).record for name in ("jobs", "mail", "n" * 300) for key in keys]
    assert len(set(records)) == len(records)
    assert all(len(record.encode()) < 300 for record in records)


def test_a_key_is_a_text_or_an_integer() -> None:
    limits = Limits(concurrency=1, key=lambda value: value)
    assert (limits.key_of("a"), limits.key_of(7)) == ("a", "7")
    for odd in (None, 1.5, True, {}):
        with pytest.raises(TypeError, match="text or an integer"):
            limits.key_of(odd)


@pytest.mark.parametrize("kind", [Worker, AsyncWorker])
def test_a_worker_takes_limits_and_nothing_else_for_them(kind: Any) -> None:
    with MemoryQueueStore() as store:
        queue = PersistentQueue[Any]("jobs", store=store)
        with pytest.raises(TypeError, match="limits must be Limits"):
            kind(queue, print, limits="10/s")
        at_most_once = PersistentQueue[Any]("gone", store=store, delivery_policy=AtMostOnceDelivery())
        with pytest.raises(ValueError, match="none can be given back"):
            kind(at_most_once, print, limits=Limits(rate="10/s"))
