"""The short ways leave behind exactly what the engine would: the same is told to a store that takes them, and to one
that takes none, and everything visible is compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from localqueue.contracts.differ import differ, play
from localqueue.contracts.operation import Operation
from localqueue.contracts.teller import KIND, RECORDS
from localqueue.stores.mongodb import MongoDBQueueStore, fast
from localqueue.stores.port import Changes, Lease, LeaseRequest, NewMessage, Payload, RecordWrite, Settle
from tests.servers import MongoDB

pytestmark = pytest.mark.server


class LongWay(MongoDBQueueStore):
    """Takes it that a journal is kept, looks, and takes the engine's way."""

    @property  # type: ignore[override]
    def journalled(self) -> bool:
        return True

    @journalled.setter
    def journalled(self, value: bool) -> None:
        pass

    def put_one(self, queue: str, payload: Payload, codec: str | None) -> tuple[str, float]:
        ids, at = self.put_batch(queue, [payload], codec)
        return ids[0], at

    def put_batch(
        self, queue: str, payloads: Sequence[Payload], codec: str | None, *, records: Sequence[RecordWrite] = ()
    ) -> tuple[Sequence[str], float]:
        ids = self.mint(len(payloads))
        new = [NewMessage(one, queue, payload, codec) for one, payload in zip(ids, payloads, strict=True)]
        enqueued = self.commit(Changes(enqueue=new, records=records)).enqueued
        return ids, enqueued[0].at if enqueued else self.now()

    def ack_one(self, queue: str, message_id: str, token: int) -> bool:
        return self.commit(Changes(settle=[Settle(queue, message_id, "ack", token)], strict=False)).settled[0]


def _twins(mongodb: MongoDB) -> dict[str, Callable[..., MongoDBQueueStore]]:
    def opened(kind: type[MongoDBQueueStore], **options: Any) -> MongoDBQueueStore:
        return kind(mongodb.url, namespace=uuid4().hex, **options)

    return {"long": partial(opened, LongWay), "short": partial(opened, MongoDBQueueStore)}


def _commit(**changes: Any) -> Operation:
    return Operation("commit", (Changes(**changes),))


def _put(label: str, **options: Any) -> Operation:
    return _commit(enqueue=[NewMessage(label, "one", "x", **options)])


def _lease(limit: int = 1, **options: Any) -> Operation:
    return Operation("lease", (LeaseRequest("one", limit, **options),))


SCENES: dict[str, list[Operation]] = {
    "put one": [
        Operation("put_one", ("one", "x", None), labels=("#1",)),
        Operation("put_one", ("one", b"\x00", "raw"), labels=("#2",)),
    ],
    "put many": [Operation("put_batch", ("one", ["x", b"y"], "raw"), labels=("#1", "#2"))],
    "put with options": [
        _put("#1", delay=5.0, priority=2, headers='{"a":1}'),
        _put("#2", ttl=9.0),
        _put("#3", delay=5.0, ttl=3.0),
        _put("#4", ttl=0.0),
        _put("#5", dedupe_key="d"),
        _put("#6", dedupe_key="d"),
        Operation("advance", (6.0,)),
        _lease(5),
    ],
    "put a batch with keys": [
        _commit(enqueue=[NewMessage(f"#{n}", "one", "x", ordering_key=f"k{n % 2}", ttl=5.0) for n in range(1, 5)]),
        _commit(enqueue=[NewMessage(f"#{n}", "one", "x", dedupe_key=f"d{n % 3}") for n in range(5, 10)]),
        _lease(9),
    ],
    "claim one": [_put("#1", dedupe_key="d"), _put("#2"), _lease(timeout=5.0, max_attempts=3), _lease()],
    "claim many": [_put("#1"), _put("#2", priority=1), _put("#3"), _lease(2, max_attempts=1), _lease(2)],
    "claim what is paused for another": [
        _put("#1"),
        Operation("pause", ("one",), {"worker": "w"}),
        _lease(leased_by="w", counted=False),
        _lease(leased_by="v", counted=False),
    ],
    "ack": [_put("#1"), _lease(), Operation("ack_one", ("one", "#1", 2)), Operation("ack_one", ("one", "#1", 1))],
    "ack many": [
        _put("#1"),
        _put("#2"),
        _put("#3", run_id="r"),
        _lease(3),
        _commit(settle=[Settle("one", "#1", "ack", 1), Settle("one", "#2", "ack", 1)]),
        _commit(settle=[Settle("one", "#3", "ack", 1)]),
    ],
    "ack with records": [
        _put("#1"),
        _put("#2"),
        _put("#3", ordering_key="k"),
        _put("#4", ordering_key="k"),
        _lease(3),
        _commit(
            settle=[Settle("one", "#1", "ack", 1)],
            records=[RecordWrite(KIND, RECORDS[0], b"v", None, True), RecordWrite(KIND, RECORDS[1], b"w")],
            lease=LeaseRequest("one"),
        ),
        _commit(settle=[Settle("one", "#2", "ack", 7)], records=[RecordWrite(KIND, RECORDS[0], b"never")], strict=True),
        _commit(settle=[Settle("one", "#2", "ack", 1)], records=[RecordWrite(KIND, RECORDS[0], b"never", 7)]),
        _commit(settle=[Settle("one", "#2", "ack", 1)], records=[RecordWrite(KIND, RECORDS[0], None, None, True)]),
        _commit(settle=[Settle("one", "#3", "ack", 1)], records=[RecordWrite(KIND, RECORDS[1], b"x")]),
    ],
    "renew": [
        _put("#1"),
        _put("#2"),
        _lease(2, timeout=5.0),
        Operation("renew", ([Lease("one", "#1", 1), Lease("one", "#2", 7)],), {"timeout": 20.0}),
        Operation("advance", (6.0,)),
        _lease(2),
    ],
}


@pytest.mark.parametrize("scene", SCENES)
def test_a_short_way_leaves_behind_what_the_engine_would(mongodb: MongoDB, scene: str) -> None:
    found = play(_twins(mongodb), SCENES[scene])
    assert found is None, str(found)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(2))
def test_whatever_is_told_a_store_without_short_ways_answers_alike(mongodb: MongoDB, number: int) -> None:
    found = differ(_twins(mongodb), seed=f"short/{number}", length=80)
    assert found is None, str(found)


def test_the_long_way_is_long(mongodb: MongoDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else the tests above would compare the short ways with themselves."""

    def short(*_: object) -> None:
        raise AssertionError("this is a short way")

    for name in ("insert", "enqueue_one", "claim", "renew", "ack_one", "ack_all"):
        monkeypatch.setattr(fast, name, short)
    with _twins(mongodb)["long"]() as store:
        store.put_one("one", "x", None)
        (message,) = store.lease(LeaseRequest("one"))
        lease = Lease("one", message.id, message.attempts)
        assert store.renew([lease], timeout=5.0) != [None]
        assert store.ack_one(*lease)
        store.commit(Changes(enqueue=[NewMessage(store.mint()[0], "one", "x")]))
        assert store.stats("one").ready == 1
