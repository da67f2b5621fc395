"""Operations over which stores have disagreed, as the differ showed them."""

from __future__ import annotations

from typing import Any

from localqueue.contracts.operation import Operation
from localqueue.stores.port import Changes, Edge, LeaseRequest, Limit, NewMessage, Settle


def _put(label: str, limit: Limit | None = None, queue: str = "one", **options: Any) -> Operation:
    message = NewMessage(label, queue, "x", **options)
    return Operation("commit", (Changes(enqueue=[message], limits={queue: limit} if limit else {}),))


def _lease(queue: str = "one", **options: Any) -> Operation:
    return Operation("lease", (LeaseRequest(queue, **options),))


def _settle(label: str, action: Any, **options: Any) -> Operation:
    return Operation("commit", (Changes(settle=[Settle("one", label, action, **options)]),))


def _pass(seconds: float) -> Operation:
    return Operation("advance", (seconds,))


ONCE_DISAGREED: dict[str, list[Operation]] = {
    "drop-oldest finds a lease that ran out": [
        _put("#1"),
        _lease(timeout=5.0),
        _pass(10.0),
        _put("#2"),
        _put("#3", Limit(2, "drop-oldest")),
    ],
    "drop-oldest finds a lease that ran out on the last attempt": [
        _put("#1"),
        _lease(timeout=5.0, max_attempts=1),
        _pass(10.0),
        _put("#2", Limit(1, "drop-oldest")),
    ],
    "a bounded put finds a life that is over": [
        _put("#1", ttl=1.0),
        _pass(10.0),
        _put("#2", Limit(1)),
    ],
    "a put on a key whose holder outlived its lease and its life": [
        _put("#1", dedupe_key="d", ttl=2.0),
        _lease(timeout=5.0),
        _pass(10.0),
        _put("#2", dedupe_key="d"),
    ],
    "a put on a key whose holder was delivered for the last time": [
        _put("#1", dedupe_key="d", ttl=2.0),
        _lease(timeout=5.0, max_attempts=1),
        _pass(10.0),
        _put("#2", dedupe_key="d"),
    ],
    "a bounded put finds a delay that is over": [
        _put("#1", delay=1.0),
        _pass(10.0),
        _put("#2", Limit(2)),
        _put("#3", Limit(2, "drop-newest")),
        _put("#4", Limit(2, "overflow-queue", "spill")),
        _put("#5", Limit(2)),
    ],
    "a release of the last attempt": [
        _put("#1"),
        _lease(),
        _pass(1.0),
        _settle("#1", "release", token=1, delay=2.0, max_attempts=1),
    ],
    "the oldest that is ready has outlived its time": [
        _put("#1", ttl=2.0),
        _put("#2", delay=0.5),
        _pass(5.0),
    ],
    "a release with an error finds a life that is over": [
        _put("#1", ttl=2.0),
        _lease(),
        _pass(5.0),
        _settle("#1", "release", token=1, error={"type": "E", "module": "m", "message": "no"}),
    ],
    "a message waits for its own duplicate": [
        _put("#1"),
        _put("#2", dedupe_key="d", after=("#1",)),
        Operation(
            "commit",
            (Changes(enqueue=[NewMessage("#3", "one", "x", dedupe_key="d")], edges=[Edge("#3", "#2")]),),
        ),
    ],
    "the holder of a key is dropped by the commit that found it": [
        _put("#1", dedupe_key="d"),
        Operation(
            "commit",
            (
                Changes(
                    enqueue=[NewMessage("#2", "one", "x", dedupe_key="d"), NewMessage("#3", "one", "x")],
                    limits={"one": Limit(1, "drop-oldest")},
                ),
            ),
        ),
    ],
    "nothing of a run is stored": [
        _put("#1", dedupe_key="d"),
        _put("#2", dedupe_key="d", run_id="r"),
        _put("#3", Limit(1, "drop-newest"), run_id="s"),
    ],
    "an ack frees what has outlived its time": [
        _put("#1"),
        _put("#2", queue="two", after=("#1",), ttl=1.0),
        _pass(5.0),
        _lease(),
        Operation("ack_one", ("one", "#1", 1)),
    ],
    "an edge of a commit whose ack is refused": [
        _put("#1"),
        _put("#2", after=("#1",)),
        _put("#3"),
        Operation("commit", (Changes(edges=[Edge("#3", "#2")], settle=[Settle("one", "#4", "ack", token=1)]),)),
    ],
    "an edge that is there already, of a message that was purged": [
        _put("#1"),
        _put("#2", queue="two", after=("#1",)),
        Operation("purge", ("one",)),
        Operation("commit", (Changes(edges=[Edge("#1", "#2")]),)),
    ],
}
