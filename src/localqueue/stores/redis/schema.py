"""What stands on the server: keys and their names, the library of functions, and a namespace with its version.

The library is the files of `lua/` in one text, under a name that is a digest of it. So processes of different releases
can share a server, each calling the functions it was written with, and loading is safe however many do it at once. What
they share, the data, has a version of its own.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64encode
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localqueue.errors import (
    QueueStoreError,
    QueueStoreMissingError,
    QueueStoreUnavailableError,
    QueueStoreVersionError,
)
from localqueue.ids import new_secret

if TYPE_CHECKING:
    from localqueue.stores.redis.connection import Connections

VERSION = b"2"  # of the data, as in `lua/base.lua`
_OLDER = (b"1",)  # which `lua/fast.lua` migrates

_FOLDER = Path(__file__).parent / "lua"
_FILES = (
    *("base", "order", "writes", "message", "line", "timers", "counts", "enqueue", "dependencies"),
    *("settle", "records", "lease", "journal", "reads", "notify", "operations", "check", "fast", "library"),
)
_SOURCE = "\n".join((_FOLDER / f"{name}.lua").read_text(encoding="utf-8") for name in _FILES)
_DIGEST = hashlib.sha256(_SOURCE.encode()).hexdigest()[:16]
_PREFIX = f"localqueue_{_DIGEST}_"

LIBRARY = f"#!lua name=localqueue_{_DIGEST}\nlocal PREFIX = '{_PREFIX}'\n{_SOURCE}".encode()

#: The functions by the names they are registered under in `library.lua`, as the server knows them.
FUNCTIONS = {
    name: f"{_PREFIX}{name}".encode()
    for name in re.findall(r"^(?:register|write|read)\('(\w+)'", _SOURCE, re.MULTILINE)
}

Found = list[Any]

_OLDEST = (7, 0)
_EVICTING = ("allkeys-lru", "allkeys-lfu", "allkeys-random")


def digest(name: str) -> bytes:
    """22 characters that stand for a namespace, a queue or a run, so that no name of a user, however it is spelled, can
    be taken for another part of a key."""
    return urlsafe_b64encode(blake2b(name.encode(), digest_size=16).digest())[:22]


def root(namespace: str) -> bytes:
    """What all keys of a namespace begin with. The braces make them one hash slot of a cluster."""
    return b"lq:{%b}" % digest(namespace)


def keys(root: bytes, *, cluster: bool) -> tuple[bytes, ...]:
    """The keys that a call declares, with their number in front.

    A function uses more of them than it declares, which is right as long as all are on one node. While a slot moves to
    another node they are not. A call that also declares a key that is never there is then not begun: the node asks to
    try again.
    """
    return (b"2", root, root + b":never") if cluster else (b"1", root)


def find_namespace(server: Connections, namespace: str, *, looking: bool) -> Found:
    """What is there of a namespace: its version, name and secret. To look, it must be there and of this version."""
    found: Found = server.ask(b"HMGET", root(namespace), b"version", b"name", b"secret", again=True)
    version = found[0]
    if version is None and looking:
        raise QueueStoreMissingError(
            f"there is no namespace {namespace!r} in the store at {server.shown!r}, which was opened to look "
            "(read_only=True); the first store that is opened to write makes it",
            path=server.shown,
        )
    if version in _OLDER and looking:
        raise QueueStoreVersionError(
            f"namespace {namespace!r} at {server.shown} was written by an older localqueue (data version "
            f"{version.decode()}); open it once without read_only, which migrates it",
            path=server.shown,
        )
    return found


def open_namespace(server: Connections, namespace: str, found: Found) -> int:
    """The secret of a namespace, which is made on first use and migrated from an older version."""
    if found[0] is None or found[0] in _OLDER:
        new = str(new_secret()).encode()
        key, name = root(namespace), namespace.encode()
        found = server.ask(b"FCALL", FUNCTIONS["namespace"], b"1", key, name, new, again=True)
    version, name, secret = found
    if version != VERSION:
        raise QueueStoreVersionError(
            f"namespace {namespace!r} at {server.shown} has data version {version.decode()}; this release knows "
            f"{VERSION.decode()}. A newer release wrote it: upgrade localqueue",
            path=server.shown,
        )
    if name != namespace.encode():
        raise QueueStoreError(
            f"the keys of namespace {namespace!r} at {server.shown} belong to another", path=server.shown
        )
    return int(secret)


def check_server(server: Connections, *, durability: str, volatile: bool) -> None:
    """Refuse a server that is too old, or that would not keep what it confirms; find out whether it is a cluster."""
    info = _info(server)
    version = tuple(int(part) for part in info.get("redis_version", "0.0").split(".")[:2])
    if version < _OLDEST:
        raise QueueStoreError(
            f"the Redis server at {server.shown} is version {info.get('redis_version')}; 7.0 or newer is needed, "
            "which has FUNCTION",
            path=server.shown,
        )
    if info.get("loading") == "1" or info.get("async_loading") == "1":
        raise QueueStoreUnavailableError(f"the Redis server at {server.shown} is reading its data", path=server.shown)
    if not volatile:
        _check_persistence(server, info)
    if durability == "power":
        _check_sync(server, info)
    if info.get("cluster_enabled") == "1":
        server.is_cluster = True
        server.others = _nodes(server)


def _check_persistence(server: Connections, info: dict[str, str]) -> None:
    if info.get("aof_enabled") != "1":
        raise QueueStoreError(
            f"the Redis server at {server.shown} does not write what it confirms to disk: a restart would lose "
            "messages. Set `appendonly yes`, or open the store with volatile=True if that loss is acceptable",
            path=server.shown,
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy in _EVICTING:
        raise QueueStoreError(
            f"the Redis server at {server.shown} removes keys of its choice when memory is short (maxmemory-policy "
            f"{policy}): set `maxmemory-policy noeviction`, or open the store with volatile=True if that loss is "
            "acceptable",
            path=server.shown,
        )


def _check_sync(server: Connections, info: dict[str, str]) -> None:
    try:
        found = server.ask(b"CONFIG", b"GET", b"appendfsync", again=True)
    except QueueStoreError as error:
        raise QueueStoreError(
            f"durability='power' needs `appendfsync always`, and the Redis server at {server.shown} does not show its "
            f"settings: {error}",
            path=server.shown,
        ) from error
    sync = found[1].decode() if len(found) > 1 else "unknown"
    if info.get("aof_enabled") != "1" or sync != "always":
        raise QueueStoreError(
            f"durability='power' needs `appendonly yes` and `appendfsync always`; the Redis server at {server.shown} "
            f"has appendonly {'yes' if info.get('aof_enabled') == '1' else 'no'} and appendfsync {sync}",
            path=server.shown,
        )


def _info(server: Connections) -> dict[str, str]:
    lines = server.ask(b"INFO", again=True).decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def _nodes(server: Connections) -> list[tuple[str, int]]:
    """The nodes of a cluster, for when the one that the url names is gone."""
    slots: list[Any] = server.ask(b"CLUSTER", b"SLOTS", again=True)
    return sorted({(node[0].decode(), int(node[1])) for slot in slots for node in slot[2:] if node[0]})
