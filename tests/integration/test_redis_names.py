"""Names of users never become parts of keys: whatever they are, the keys of a namespace look the same."""

from __future__ import annotations

import os
import re

import msgpack
import pytest
import redis

from localqueue.contracts.payloads import STRANGE
from localqueue.contracts.steps import put, take
from localqueue.stores.port import Changes, RecordWrite
from localqueue.stores.redis import RedisQueueStore
from localqueue.stores.redis.schema import digest, root
from tests.servers import Redis

_KEY = re.compile(rb"lq:\{[\w-]{22}\}(:(\w+|run:[\w-]{22}(:m)?|[\w-]{22}:\w+))?")
NAMES = pytest.mark.parametrize(
    "name",
    [*(text for text in STRANGE.values() if text.isprintable() or "\x00" in text), "}{", "{a}", "}:q", "a}:b:{"],
)


@NAMES
def test_a_strange_name_is_digested(redis_server: Redis, name: str) -> None:
    namespace = f"{os.getpid()}{name}"
    with RedisQueueStore(redis_server.url, namespace=namespace) as store:
        put(store, name, run_id=name, dedupe_key=name, ordering_key=name, ttl=50)
        put(store, name, ordering_key=name)
        take(store, name, leased_by=name)
        store.commit(Changes(records=[RecordWrite(name, name, b"1")]))
        store.subscribe(name, name)
        store.heartbeat(name, name)
        store.pause(name, worker=name)
        with redis.Redis.from_url(redis_server.url) as client:
            keys = list(client.scan_iter(match=root(namespace) + b"*", count=10_000))
        assert len(keys) > 10
        assert [key for key in keys if not _KEY.fullmatch(key)] == []
        assert store.queues() == [name]
        assert store.check().ok


def test_names_that_can_not_be_encoded_are_refused_before_anything_is_stored(redis_server: Redis) -> None:
    broken = "a\ud800b"
    with pytest.raises(ValueError, match="surrogates"):
        RedisQueueStore(redis_server.url, namespace=broken)
    with RedisQueueStore(redis_server.url, namespace=f"surrogates-{os.getpid()}") as store:
        with pytest.raises(ValueError, match="surrogates"):
            store.put_one(broken, "x", None)
        with pytest.raises(ValueError, match="surrogates"):
            put(store, dedupe_key=broken)
        assert store.scan("jobs") == []


def test_digests_of_different_names_differ() -> None:
    names = [*STRANGE.values(), *(f"{n}" for n in range(1000))]
    names.remove(STRANGE["surrogate"])
    assert len({digest(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    ("lua", "python"),
    [
        ("{}", []),
        ("{1, -1, 127, 128, -32, -33, 255, 65535, 65536}", [1, -1, 127, 128, -32, -33, 255, 65535, 65536]),
        ("{-128, -129, -32768, -32769, -2147483649}", [-128, -129, -32768, -32769, -2147483649]),
        ("{4294967295, 4294967296, 9007199254740992}", [4294967295, 4294967296, 9007199254740992]),
        ("{0.1, 1700000000.123456, 0.5, -2.25, 1e300}", [0.1, 1700000000.123456, 0.5, -2.25, 1e300]),
        ("{'', ('x'):rep(31), ('y'):rep(32), ('z'):rep(300)}", [b"", b"x" * 31, b"y" * 32, b"z" * 300]),
        ("{('w'):rep(70000), '\\0\\255'}", [b"w" * 70_000, b"\x00\xff"]),
        ("{true, false, {1, {2, false, 'x'}}}", [True, False, [1, [2, False, b"x"]]]),
        ("{a = {b = {c = 1}}, d = 'e'}", {b"a": {b"b": {b"c": 1}}, b"d": b"e"}),
        ("(function() local t = {} for n = 1, 70000 do t[n] = n end return t end)()", list(range(1, 70_001))),
        (
            "(function() local t = {} for n = 1, 40 do t['k' .. n] = n end return t end)()",
            {b"k%d" % n: n for n in range(1, 41)},
        ),
    ],
)
def test_packed_values_are_read_as_lua_wrote_them(redis_server: Redis, lua: str, python: object) -> None:
    with redis.Redis.from_url(redis_server.url, protocol=2) as client:
        assert msgpack.unpackb(client.eval(f"return cmsgpack.pack({lua})", 0), raw=True) == python
