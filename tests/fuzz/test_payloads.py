"""A payload that is not what its codec says: delivered, or a dead letter that says why and has all its bytes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from queue import Empty
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localqueue import AtMostOnceDelivery, PersistentQueue
from localqueue.errors import PayloadError, QueueStoreError
from localqueue.message import UndecodablePayload
from localqueue.policies import BytesCodec, JsonCodec, MsgpackCodec, PickleCodec
from localqueue.stores.port import Changes, NewMessage
from localqueue.worker_config import PersistentWorkerConfig
from tests.fuzz.damage import damages
from tests.fuzz.effort import examples
from tests.fuzz.words import words
from tests.stores import OPENERS, new_place
from tests.unit.worker_ways import in_tasks, in_threads, one_by_one

QUEUE = "jobs"


class HexCodec:
    """One that a user wrote: its errors are those of whatever it calls."""

    name = "hex"

    def encode(self, value: Any) -> str:
        return str(value.hex())

    def decode(self, payload: str | bytes) -> Any:
        return bytes.fromhex(payload)  # type: ignore[arg-type]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name}


class Raising:
    """A pickle that raises something when it is read."""

    def __init__(self, error: type[BaseException], text: str) -> None:
        self.error = (error, text)

    def __reduce__(self) -> Any:
        return raise_, self.error


def raise_(error: type[BaseException], text: str) -> None:
    raise error(text)


READERS: dict[str, Any] = {
    one.name: one
    for one in (JsonCodec(), MsgpackCodec(), BytesCodec(), PickleCodec(trusted=True), HexCodec())  # type: ignore[attr-defined]
}
WAYS = {"threads": in_threads, "tasks": in_tasks, "one by one": one_by_one}

ODD_JSON = [
    "NaN", "-Infinity", "1e999", "9" * 5000, "[" * 100_000, '{"a":' * 50_000, '"\\ud800"', '{"a":1,"a":2}', "\ufeff1",
    " 1 ", "1 2", "1\0", "\u00a01", "nul", "", '"' + "x" * 200_000, "{'a': 1}",
]  # fmt: skip
ODD_MSGPACK = [
    b"\xc1", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 5000, b"\x81\x90\x01",
    b"\xd6\xff\0\0\0\0", b"\xc7\x0c\xff\xff\xff\xff\xff" + bytes(8), b"\xa1\xff", b"\x01\x01", b"\xd4\x05x", b"",
]  # fmt: skip
ODD_PICKLES = [
    pickle.dumps(Raising(*what))
    for what in (
        (RuntimeError, "x" * 100_000), (KeyError, "\ud800"), (RecursionError, ""), (GeneratorExit, "x"),
        (OSError, "\0"), (PayloadError, "its own"),
    )
]  # fmt: skip

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
sound = st.one_of(
    values.map(json.dumps),
    values.map(lambda value: json.dumps(value).encode()),
    st.integers(-(2**63), 2**63 - 1).map(MsgpackCodec().encode),
)
payloads: st.SearchStrategy[str | bytes] = st.one_of(
    st.sampled_from([*ODD_JSON, *ODD_MSGPACK, *ODD_PICKLES]),
    sound,
    st.builds(lambda content, damage: damage(content), sound.filter(lambda one: isinstance(one, bytes)), damages),
    st.binary(max_size=60),
    st.text(max_size=30),
)
names = st.one_of(st.none(), st.sampled_from(sorted(READERS)), words)
headers = st.one_of(
    st.none(),
    st.none(),
    st.dictionaries(st.text(max_size=3), values, max_size=2).map(json.dumps),
    st.sampled_from([*ODD_JSON, "[]", "null", '{"a": 1}', '{"a": null}', '{"a": "b"}']),
)


@pytest.fixture(scope="module", params=OPENERS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with new_place(request.param, tmp_path_factory.mktemp("payloads")).open() as store:
        store.enable_journal()
        yield store


def put(store: Any, payload: str | bytes, codec: str | None, headers: str | None) -> Any:
    """Put it as another program might; None where the store does not take it."""
    (one,) = store.mint()
    try:
        store.commit(Changes(enqueue=[NewMessage(one, QUEUE, payload, codec, headers=headers)]))
    except QueueStoreError as error:
        raise AssertionError(f"{payload!r}, {codec!r}, {headers!r} reached the store") from error
    except (PayloadError, ValueError) as error:
        assert str(error)
        return None
    return one


def raw(payload: str | bytes) -> bytes:
    return payload if isinstance(payload, bytes) else payload.encode("utf-8", "surrogatepass")


def unreadable(queue: PersistentQueue[Any], payload: str | bytes) -> list[Any]:
    """The dead letters, which are all as they were put."""
    dead = queue.dead_letters()
    for one in dead:
        assert isinstance(one.value, UndecodablePayload) and one.value.raw == raw(payload)
        assert one.last_error is not None and one.last_error["type"] == "PayloadError" and one.last_error["message"]
    return dead


@given(payload=payloads, codec=names, reader=st.sampled_from(sorted(READERS)), headers=headers)
@example(payload="[" * 100_000, codec=None, reader="json", headers=None)
@example(payload=b"\xff", codec=None, reader="msgpack", headers=None)
@example(payload="1", codec=None, reader="json", headers="x")
@example(payload="1", codec=None, reader="json", headers="[" * 100_000)
@example(payload="x", codec="hex", reader="hex", headers=None)
@example(payload="x", codec="a" * 60_000, reader="json", headers=None)
@examples(12)
def test_a_payload_is_delivered_or_kept_with_the_reason(
    store: Any, payload: str | bytes, codec: str | None, reader: str, headers: str | None
) -> None:
    store.purge(QUEUE)
    queue = PersistentQueue[Any](QUEUE, store=store, codec=READERS[reader])
    one = put(store, payload, codec, headers)
    if one is None:
        return
    (shown,) = queue.messages()
    inspected = queue.inspect(one)
    assert inspected is not None and repr(shown) == repr(inspected)
    assert [event.payload for event in store.events(store.journal_span()[1] - 1)] in ([payload], [None])
    try:
        got = queue.get_message(block=False)
    except Empty:
        (dead,) = unreadable(queue, payload)
        assert dead.id == one
        assert dead.value.reason in dead.last_error["message"] or len(dead.value.reason) > 5000
        assert queue.requeue_dead(one) and queue.stats().ready == 1
    else:
        assert repr(got.value) == repr(shown.value) and not isinstance(got.value, UndecodablePayload)
        assert queue.ack(got)


@given(
    batch=st.lists(st.tuples(payloads, names, headers), min_size=1, max_size=4),
    way=st.sampled_from(sorted(WAYS)),
    reader=st.sampled_from(sorted(READERS)),
)
@example(batch=[(one, "pickle", None) for one in ODD_PICKLES], way="threads", reader="pickle")
@example(batch=[(one, None, None) for one in ODD_JSON], way="one by one", reader="json")
@example(batch=[(one, "msgpack", None) for one in ODD_MSGPACK], way="tasks", reader="msgpack")
@examples(4)
def test_a_worker_goes_on_and_no_message_is_lost(store: Any, batch: list[Any], way: str, reader: str) -> None:
    store.purge(QUEUE)
    queue = PersistentQueue[Any](QUEUE, store=store, codec=READERS[reader])
    expected = {one for given in batch if (one := put(store, *given)) is not None}
    seen: list[Any] = []
    last = PersistentQueue[Any](QUEUE, store=store, codec=READERS[reader]).put(READERS[reader].decode(GOOD[reader]))
    WAYS[way](queue, seen.append, config=PersistentWorkerConfig(max_tries=1))
    dead = {one.id for one in queue.dead_letters()}
    assert len(seen) + len(dead) == len(expected) + 1
    assert dead <= expected and last.id not in dead


GOOD: dict[str, Any] = {"json": "1", "msgpack": b"\x01", "bytes": b"1", "pickle": pickle.dumps(1), "hex": "01"}


@given(payload=payloads, codec=names)
@examples(6)
def test_what_is_delivered_at_most_once_is_not_lost_when_it_can_not_be_read(
    store: Any, payload: str | bytes, codec: str | None
) -> None:
    store.purge(QUEUE)
    queue = PersistentQueue[Any](QUEUE, store=store, delivery_policy=AtMostOnceDelivery())
    if put(store, payload, codec, None) is None:
        return
    try:
        queue.get_message(block=False)
    except Empty:
        assert len(unreadable(queue, payload)) == 1
    else:
        assert queue.stats().total == 0
