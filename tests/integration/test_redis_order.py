"""Messages of a Redis store are in the order of their commits: whatever the clocks of the clients say, in whatever
language the server sorts, and behind what an older release has stored."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import redis

from localqueue import PersistentQueue
from localqueue.contracts.steps import assert_sound, drain, new, payloads, put, put_many, stored
from localqueue.errors import (
    CircularDependency,
    IdTaken,
    LeaseLost,
    QueueError,
    QueueFull,
    QueueStoreError,
    QueueStoreVersionError,
    RunCancelled,
    UnknownMessage,
)
from localqueue.ids import Mint
from localqueue.queue_copy import copy_queue
from localqueue.stores.port import Changes, Edge, Limit, NewMessage, Settle
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.schema import root
from localqueue.stores.sqlite import MemoryQueueStore
from tests.old_stores.content import NAMESPACE
from tests.old_stores.native import load
from tests.servers import Redis

pytestmark = pytest.mark.server

HOUR = 3_600_000_000_000
_fresh = itertools.count()


@pytest.fixture
def namespace() -> str:
    return f"order-{os.getpid()}-{next(_fresh)}"


@pytest.fixture
def store(redis_server: Redis, namespace: str) -> Iterator[RedisQueueStore]:
    with RedisQueueStore(redis_server.url, namespace=namespace) as store:
        yield store


@pytest.fixture
def late(store: RedisQueueStore, redis_server: Redis, namespace: str) -> Iterator[RedisQueueStore]:
    """The same store on a host whose clock is an hour behind."""
    with RedisQueueStore(redis_server.url, namespace=namespace) as late:
        _fall_behind(late)
        yield late


def _fall_behind(store: RedisQueueStore) -> None:
    store.ids = Mint(int(store._proof), clock=lambda: time.time_ns() - HOUR)


def _queue(store: RedisQueueStore, name: str) -> PersistentQueue[str]:
    return PersistentQueue(name, store=store)


def test_a_host_whose_clock_is_behind_puts_behind_the_others(store: RedisQueueStore, late: RedisQueueStore) -> None:
    told: list[str] = []
    for round in range(3):
        for one in (store, late):
            _fall_behind(late)  # a process that began just now
            told += [one.put_one("jobs", f"{round}", None)[0], put(one), put(one, delay=1, priority=3)]
            told += one.put_batch("jobs", ["a", "b", "c"], None)[0]
            told += put_many(one, "de", dedupe_key=None, ordering_key="k")
    assert [message.id for message in store.scan("jobs")] == told == sorted(told)
    assert [stored(store, one).payload for one in told[:4]] == ["0", "x", "x", "a"]
    assert_sound(store)


def test_the_ids_of_one_commit_are_in_its_order_when_its_messages_come_after_each_other(
    store: RedisQueueStore, late: RedisQueueStore
) -> None:
    put(store)
    last, middle, first = late.mint(3)
    batch = [
        NewMessage(last, "jobs", "last", after=(middle,)),
        NewMessage(middle, "jobs", "middle", after=(first,)),
        NewMessage(first, "jobs", "first"),
    ]
    done = late.commit(Changes(enqueue=batch)).enqueued
    names = [one.id for one in done]
    assert [message.id for message in store.scan("jobs")][1:] == names
    assert [stored(store, name).payload for name in names if name] == ["last", "middle", "first"]
    assert [one.state for one in done] == ["waiting", "waiting", "ready"]
    assert store.upstream("jobs", names[0] or "") == [names[1]]
    assert drain(store)[1:] == ["first", "middle", "last"]


def test_a_host_mints_newer_ids_after_it_was_behind(store: RedisQueueStore, late: RedisQueueStore) -> None:
    there = put(store)
    (old,) = late.mint()
    assert old < there
    late.put_one("jobs", "x", None)
    (young,) = late.mint()
    assert young > there


def test_a_queue_is_copied_to_a_store_that_is_ahead_of_the_clock(store: RedisQueueStore, late: RedisQueueStore) -> None:
    put_many(store, "01")
    with MemoryQueueStore() as other:
        source = PersistentQueue[str]("jobs", store=other)
        source.put_many(["2", "3"])
        assert copy_queue(source, _queue(late, "jobs")).copied == 2
    assert payloads(store.scan("jobs")) == ["0", "1", '"2"', '"3"']


def test_a_queue_is_copied_while_others_put_all_the_time(
    store: RedisQueueStore, redis_server: Redis, namespace: str
) -> None:
    class Busy(RedisQueueStore):
        """Somebody puts each time before it commits."""

        def mint(self, count: int = 1) -> list[str]:
            ids = super().mint(count)
            if store.qsize("jobs") < 20:
                store.put_one("jobs", "x", None)
            return ids

    with MemoryQueueStore() as other, Busy(redis_server.url, namespace=namespace) as target:
        source = PersistentQueue[str]("jobs", store=other)
        source.put_many(["0", "1"])
        assert copy_queue(source, _queue(target, "jobs")).copied == 2
    assert store.qsize("jobs") == 4, "it came too late once, and had time then"


def _id(store: RedisQueueStore, key: int) -> str:
    return store.ids.id_of(key)


def _keys(store: RedisQueueStore, queue: str = "jobs") -> list[int]:
    return [int(message.id[:16], 16) for message in store.scan(queue)]


@pytest.mark.parametrize("newest", [(1 << 32) - 1, (1 << 44) - 2, (1 << 53) + 1, (5 << 32) - 4097, (1 << 62) + 5])
@pytest.mark.parametrize("count", [1, 3])
def test_keys_are_counted_beyond_what_a_number_of_lua_holds(store: RedisQueueStore, newest: int, count: int) -> None:
    put_batch = [NewMessage(_id(store, newest), "jobs", "0")]
    store.commit(Changes(enqueue=put_batch))
    minted = range(4096, 4096 + count)  # ends in zeros: the next keys are those behind the newest
    store.commit(Changes(enqueue=[NewMessage(_id(store, key), "jobs", "x") for key in minted]))
    store.commit(Changes(enqueue=[NewMessage(_id(store, 4095), "jobs", "x")]))
    assert _keys(store) == [newest, *range(newest + 1, newest + 1 + count), newest + count + 4096]


@pytest.mark.parametrize("count", [1, 3])
def test_a_new_key_is_none_that_a_message_of_another_queue_has(store: RedisQueueStore, count: int) -> None:
    newest = 1 << 50
    for queue, key in (("jobs", newest), ("other", newest + 1), ("other", newest + count + 2)):
        store.commit(Changes(enqueue=[NewMessage(_id(store, key), queue, "x")]))
    store.commit(Changes(enqueue=[NewMessage(_id(store, key), "jobs", "x") for key in range(4096, 4096 + count)]))
    assert len(_keys(store)) == 1 + count
    assert _keys(store, "other") == [newest + 1, newest + count + 2]
    assert not set(_keys(store)) & set(_keys(store, "other"))
    assert_sound(store, ["jobs", "other"])


def test_queues_are_ordered_each_for_itself(store: RedisQueueStore, late: RedisQueueStore) -> None:
    put(store)
    given = new(late, "other")
    (done,) = late.commit(Changes(enqueue=[given])).enqueued
    assert done.id is None
    assert [message.id for message in store.scan("other")] == [given.id]


def _unknown(store: RedisQueueStore, ids: Sequence[str]) -> Changes:
    gone = put(store, "gone")
    store.purge("gone")
    return Changes(enqueue=[NewMessage(ids[0], "jobs", "x"), NewMessage(ids[1], "jobs", "x", after=(ids[0], gone))])


def _cancelled(store: RedisQueueStore, ids: Sequence[str]) -> Changes:
    put(store, "other", run_id="r")
    store.cancel_run("r")
    return Changes(enqueue=[NewMessage(ids[0], "jobs", "x"), NewMessage(ids[1], "jobs", "x", run_id="r")])


def _full(store: RedisQueueStore, ids: Sequence[str]) -> Changes:
    return Changes(enqueue=[NewMessage(one, "jobs", "x") for one in ids], limits={"jobs": Limit(2)})


def _circle(store: RedisQueueStore, ids: Sequence[str]) -> Changes:
    messages = [NewMessage(ids[0], "jobs", "x"), NewMessage(ids[1], "jobs", "x", after=(ids[0],))]
    return Changes(enqueue=messages, edges=[Edge(ids[1], ids[1])])


def _lost(store: RedisQueueStore, ids: Sequence[str]) -> Changes:
    return Changes(enqueue=[NewMessage(ids[0], "jobs", "x")], settle=[Settle("jobs", ids[0], "release", 1)])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        (_unknown, UnknownMessage),
        (_cancelled, RunCancelled),
        (_full, QueueFull),
        (_circle, CircularDependency),
        (_lost, LeaseLost),
    ],
)
def test_a_late_commit_that_is_refused_says_why_and_changes_nothing(
    store: RedisQueueStore, late: RedisQueueStore, changes: object, error: type[QueueError]
) -> None:
    assert callable(changes)
    put(store)
    ids = late.mint(2)
    refused = changes(store, ids)
    (before, newest), last = (store.scan("jobs"), _newest(store)), store.mint()[0]
    with pytest.raises(error):
        late.commit(refused)
    assert (store.scan("jobs"), _newest(store)) == (before, newest)
    assert_sound(store)
    store.commit(Changes(enqueue=[NewMessage(last, "jobs", "x")], keep_ids=True))


def _newest(store: RedisQueueStore) -> object:
    return store._server.ask(b"HGETALL", store._root + b":newest")


def test_an_id_that_comes_twice_is_refused_whenever_it_was_minted(
    store: RedisQueueStore, late: RedisQueueStore
) -> None:
    put(store)
    (twice,) = late.mint()
    with pytest.raises(IdTaken):
        late.commit(Changes(enqueue=[NewMessage(twice, "jobs", "a"), NewMessage(twice, "jobs", "b")]))
    assert len(store.scan("jobs")) == 1


def test_a_damaged_register_is_found(store: RedisQueueStore) -> None:
    put(store)
    assert store.check().ok
    store._server.ask(b"DEL", store._root + b":newest")
    (problem,) = store.check().problems
    assert "newer than it knows" in problem


# data of an older release


@pytest.fixture
def old(tmp_path: Path) -> Iterator[str]:
    place = load("redis", tmp_path)
    assert place.namespace == NAMESPACE
    yield place.location


def test_messages_go_behind_those_of_an_older_release(old: str) -> None:
    with RedisQueueStore(old, namespace=NAMESPACE) as store:
        for queue in ("plain", "keyed", "flow"):
            last = store.scan(queue)[-1].id
            (done,) = store.commit(Changes(enqueue=[NewMessage(_id(store, 5), queue, "new", dedupe_key="n")])).enqueued
            assert done.id is not None and done.id > last
            assert payloads(store.scan(queue, after=last)) == ["new"]
        assert store.check().ok


def test_data_of_an_older_release_is_looked_at_once_it_was_opened_to_write(old: str) -> None:
    with pytest.raises(QueueStoreVersionError, match="open it once without read_only"):
        RedisQueueStore(old, namespace=NAMESPACE, read_only=True)
    RedisQueueStore(old, namespace=NAMESPACE).close()
    with RedisQueueStore(old, namespace=NAMESPACE, read_only=True) as looker:
        assert looker.check().ok


def test_a_namespace_that_became_one_of_an_older_release_is_opened_again(
    store: RedisQueueStore, namespace: str
) -> None:
    store._server.ask(b"HSET", root(namespace), b"version", b"1")
    with pytest.raises(QueueStoreError, match="open the store again"):
        put(store)


# the language of the server

_NAMES = "".join(f"<U{code:04X}> /x{code:02x} x\n" for code in range(1, 128))
_CHARMAP = f"<code_set_name> PLAIN\n<mb_cur_min> 1\n<mb_cur_max> 1\n<escape_char> /\nCHARMAP\n{_NAMES}END CHARMAP\n"
_BACKWARDS = "".join(f"<U{code:04X}>\n" for code in range(127, 0, -1))
_LOCALE = f"comment_char %\nescape_char /\nLC_COLLATE\norder_start forward\n{_BACKWARDS}order_end\nEND LC_COLLATE\n"


@pytest.fixture
def backwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """A server in a language that sorts backwards. Lua compares texts as the language of the server does."""
    if shutil.which("localedef") is None:
        pytest.skip("localedef is not installed: it is a part of glibc")
    (tmp_path / "charmap").write_text(_CHARMAP)
    (tmp_path / "source").write_text(_LOCALE)
    command = ["localedef", "-c", "-f", tmp_path / "charmap", "-i", tmp_path / "source", tmp_path / "backwards"]
    subprocess.run(command, capture_output=True)
    monkeypatch.setenv("LOCPATH", str(tmp_path))
    monkeypatch.setenv("LC_ALL", "backwards")
    server = Redis("--appendonly", "yes")
    server.start()
    with redis.Redis.from_url(server.url) as client:
        assert client.eval("return 'a' < 'b' and 1 or 0", 0) == 0, "the language was not taken"
    yield server
    server.stop()


def test_messages_are_in_order_whatever_the_language_of_the_server(backwards: Redis) -> None:
    with RedisQueueStore(backwards.url) as store:
        old = store.mint(5)
        for n in range(20):
            put(store, payload=str(n), ordering_key="k")
        for n, message_id in enumerate(old, 20):
            store.commit(Changes(enqueue=[NewMessage(message_id, "jobs", str(n), ordering_key="k")]))
        assert drain(store) == [str(n) for n in range(25)]
        for n in range(20):
            drop = Limit(5, "drop-oldest")
            message = new(store, "few", str(n), priority=-n)
            store.commit(Changes(enqueue=[message], limits={"few": drop}))
        assert payloads(store.scan("few")) == [str(n) for n in range(15, 20)]
        assert_sound(store, ["jobs", "few"])
