"""What goes in comes out, or `put` refuses; what can not be read later is set aside with its bytes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from queue import Empty
from typing import Any

import pytest

from localqueue import AtMostOnceDelivery, MemoryQueueStore, PayloadError, PersistentQueue, QueueStore
from localqueue.message import UndecodablePayload
from localqueue.policies import BytesCodec, MsgpackCodec, PickleCodec
from localqueue.stores.port import Changes, NewMessage


@pytest.fixture
def store() -> Iterator[MemoryQueueStore]:
    with MemoryQueueStore() as opened:
        yield opened


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        2**63,
        2**64 + 1,
        -(10**400),
        0.1,
        -0.0,
        1e308,
        5e-324,
        "",
        "text",
        "grüße \U0001f600",
        "nul \0 byte",
        "lone \ud800 surrogate",
        [],
        {},
        [[], {}, [{}]],
        {"a": {"b": [1, 2.5, None, "x"]}, "": 0},
        {"1": "a", "true": "b"},
        nested(100),
    ],
    ids=lambda value: repr(value)[:30].encode("ascii", "backslashreplace").decode(),
)
def test_json_comes_out_as_it_went_in(store: MemoryQueueStore, value: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    put = queue.put(value)
    assert put.value is value
    got = queue.get_message(block=False).value
    assert got == value
    assert type(got) is type(value)
    assert repr(got) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        {"deep": [float("-inf")]},
        {1: "a"},
        {None: 1},
        {True: 1},
        {"a": {2.5: 1}},
        (1, 2),
        {"a": (1,)},
        {1, 2},
        b"bytes",
        Decimal("1.5"),
        object(),
        nested(100_000),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("put", ["put", "put with options", "put_many"])
def test_json_refuses_what_would_come_out_changed(store: MemoryQueueStore, value: Any, put: str) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    with pytest.raises(ValueError, match="queue values must be JSON-serializable") as caught:
        if put == "put":
            queue.put(value)
        elif put == "put with options":
            queue.put(value, delay=5)
        else:
            queue.put_many(["fine", value])
    assert isinstance(caught.value, PayloadError)
    assert queue.stats().total == 0


def test_a_value_that_contains_itself_is_refused(store: MemoryQueueStore) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(PayloadError):
        PersistentQueue("jobs", store=store).put(circle)


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    ("codec", "value"),
    [
        (MsgpackCodec(), {1: b"raw", "a": [1.5, None, float("inf")]}),
        (MsgpackCodec(), 2**64 - 1),
        (PickleCodec(trusted=True), Point(3)),
        (PickleCodec(trusted=True), {(1, 2): {3}}),
        (BytesCodec(), b"\x00\xff"),
        (BytesCodec(), b""),
    ],
    ids=lambda value: type(value).__name__,
)
def test_another_codec_carries_what_json_can_not(store: MemoryQueueStore, codec: Any, value: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, codec=codec)
    queue.put(value)
    queue.put_many([value])
    assert queue.codec is codec
    for message in queue.get_messages(2):
        assert message.value == value
        assert type(message.value) is type(value)


@pytest.mark.parametrize(
    ("codec", "value"),
    [(MsgpackCodec(), (1, 2)), (MsgpackCodec(), 2**64), (BytesCodec(), "text"), (BytesCodec(), bytearray(b"x"))],
    ids=lambda value: type(value).__name__,
)
def test_another_codec_refuses_too(store: MemoryQueueStore, codec: Any, value: Any) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, codec=codec)
    with pytest.raises(PayloadError):
        queue.put(value)
    assert queue.stats().total == 0


def put_raw(store: QueueStore, payload: str | bytes, codec: str | None = None) -> str:
    """What a broken writer, a bit flip or another release would leave behind."""
    return store.put_one("jobs", payload, codec)[0]


@pytest.mark.parametrize(
    ("codec", "name", "payload"),
    [
        (None, None, "{not json"),
        (None, None, b"\xff\xfe"),
        (MsgpackCodec(), "msgpack", b"\xc1"),
        (PickleCodec(trusted=True), "pickle", b"garbage"),
        (BytesCodec(), "bytes", "text"),
    ],
    ids=["json text", "json bytes", "msgpack", "pickle", "bytes"],
)
def test_a_record_that_can_not_be_read_becomes_a_dead_letter_and_the_next_is_delivered(
    store: MemoryQueueStore, codec: Any, name: str | None, payload: str | bytes
) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, codec=codec)
    broken = put_raw(store, payload, name)
    good = queue.put(b"good" if isinstance(codec, BytesCodec) else "good")
    message = queue.get_message(block=False)
    assert message.id == good.id
    (dead,) = queue.dead_letters()
    assert dead.id == broken
    assert isinstance(dead.value, UndecodablePayload)
    assert dead.value.raw == (payload if isinstance(payload, bytes) else payload.encode())
    assert dead.value.codec == (name or "json")
    assert dead.value.reason
    assert dead.last_error is not None
    assert dead.last_error["type"] == "PayloadError"
    assert (queue.stats().ready, queue.stats().inflight, queue.stats().dead) == (0, 1, 1)


def test_a_queue_of_nothing_but_unreadable_records_is_empty_in_the_end(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    for n in range(5):
        put_raw(store, f"{{{n}")
    with pytest.raises(Empty):
        queue.get_message(block=False)
    assert [letter.value.raw for letter in queue.dead_letters()] == [b"{0", b"{1", b"{2", b"{3", b"{4"]


def test_a_batch_leaves_out_what_can_not_be_read(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    queue.put("a")
    put_raw(store, "{")
    queue.put("b")
    assert [m.value for m in queue.get_messages(3)] == ["a", "b"]
    assert queue.stats().dead == 1


def test_an_unreadable_record_can_be_inspected_before_anyone_leases_it(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    seen = queue.inspect(put_raw(store, "{"))
    assert seen is not None
    assert isinstance(seen.value, UndecodablePayload)
    assert (seen.state, seen.value.raw) == ("ready", b"{")


def test_a_message_of_another_codec_is_set_aside_until_somebody_can_read_it(store: MemoryQueueStore) -> None:
    packed: PersistentQueue[Any] = PersistentQueue("jobs", store=store, codec=MsgpackCodec())
    plain: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    put = packed.put({1: b"x"})
    with pytest.raises(Empty):
        plain.get_message(block=False)
    (dead,) = plain.dead_letters()
    assert dead.value.codec == "msgpack"
    assert "open the queue with that codec=" in dead.value.reason
    assert packed.dead_letters()[0].value == {1: b"x"}
    assert packed.requeue_dead(put)
    assert packed.get_nowait() == {1: b"x"}


def test_every_codec_reads_the_json_that_was_there_before(store: MemoryQueueStore) -> None:
    PersistentQueue("jobs", store=store).put({"old": 1})
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, codec=MsgpackCodec())
    assert queue.get_nowait() == {"old": 1}


def test_a_json_queue_never_unpickles(store: MemoryQueueStore) -> None:
    put_raw(store, pickle.dumps(Point(1)), "pickle")
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    with pytest.raises(Empty):
        queue.get_message(block=False)
    assert isinstance(queue.dead_letters()[0].value, UndecodablePayload)


class BrittleCodec:
    """A codec of the user's own, whose `decode` fails with an error of its own."""

    name = "brittle"

    def encode(self, value: Any) -> str:
        return str(value)

    def decode(self, payload: str | bytes) -> Any:
        return {"good": "read"}[payload]  # type: ignore[index]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name}


def test_a_codec_that_fails_in_its_own_way_does_not_block_the_queue(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, codec=BrittleCodec())
    queue.put("bad")
    queue.put("good")
    assert queue.get_message(block=False).value == "read"
    (dead,) = queue.dead_letters()
    assert dead.value.raw == b"bad"
    assert "KeyError" in dead.value.reason


def test_at_most_once_delivery_keeps_an_unreadable_record_too(store: MemoryQueueStore) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, delivery_policy=AtMostOnceDelivery())
    put_raw(store, "{broken")
    queue.put("good")
    assert queue.get_message(block=False).value == "good"
    (dead,) = queue.dead_letters()
    assert dead.value.raw == b"{broken"


@pytest.mark.parametrize("error", [GeneratorExit(), SystemExit(3), StopIteration(), MemoryError()], ids=repr)
def test_a_payload_may_raise_whatever_it_likes_when_it_is_read(store: MemoryQueueStore, error: BaseException) -> None:
    class Trap(BrittleCodec):
        def decode(self, payload: str | bytes) -> Any:
            if payload == "bad":
                raise error
            return payload

    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store, codec=Trap())
    queue.put("bad")
    queue.put("good")
    assert queue.get_message(block=False).value == "good"
    (dead,) = queue.dead_letters()
    assert type(error).__name__ in dead.value.reason


@pytest.mark.parametrize("headers", ["no json", "[1]", "null", "[" * 100_000])
def test_headers_that_can_not_be_read_make_a_dead_letter(store: MemoryQueueStore, headers: str) -> None:
    queue: PersistentQueue[Any] = PersistentQueue("jobs", store=store)
    (broken,) = store.mint()
    store.commit(Changes(enqueue=[NewMessage(broken, "jobs", '"bad"')]))
    store._writer.connection.execute("UPDATE lq_messages SET headers = ?", (headers,))  # which no store takes any more
    seen = queue.inspect(broken)
    assert seen is not None and isinstance(seen.value, UndecodablePayload)
    queue.put("good")
    assert queue.get_message(block=False).value == "good"
    (dead,) = queue.dead_letters()
    assert (dead.id, dead.headers, dead.value.raw) == (broken, {}, b'"bad"')
    assert "headers" in dead.value.reason
