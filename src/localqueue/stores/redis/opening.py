"""What is looked at before a namespace is used: that the server keeps what it confirms, and that the data is ours."""

from __future__ import annotations

from typing import Any

from localqueue.errors import QueueStoreError, QueueStoreVersionError
from localqueue.ids import new_secret
from localqueue.stores.redis.calling import VERSION
from localqueue.stores.redis.link import Link

_OLDEST = (7, 0)
_EVICTING = ("allkeys-lru", "allkeys-lfu", "allkeys-random")


def check_server(link: Link, *, durability: str, volatile: bool) -> None:
    info = _info(link)
    version = tuple(int(part) for part in info.get("redis_version", "0.0").split(".")[:2])
    if version < _OLDEST:
        raise QueueStoreError(
            f"the Redis server at {link.shown} is version {info.get('redis_version')}; 7.0 or newer is needed, "
            "which has FUNCTION",
            path=link.shown,
        )
    if not volatile:
        _check_persistence(link, info)
    if durability == "power":
        _check_sync(link, info)
    if info.get("cluster_enabled") == "1":
        link.is_cluster = True
        link.others = _nodes(link)


def _check_persistence(link: Link, info: dict[str, str]) -> None:
    if info.get("aof_enabled") != "1":
        raise QueueStoreError(
            f"the Redis server at {link.shown} does not write what it confirms to disk: a restart would lose messages. "
            "Set `appendonly yes`, or open the store with volatile=True if that loss is acceptable",
            path=link.shown,
        )
    policy = info.get("maxmemory_policy", "noeviction")
    if policy in _EVICTING:
        raise QueueStoreError(
            f"the Redis server at {link.shown} removes keys of its choice when memory is short (maxmemory-policy "
            f"{policy}): set `maxmemory-policy noeviction`, or open the store with volatile=True if that loss is "
            "acceptable",
            path=link.shown,
        )


def _check_sync(link: Link, info: dict[str, str]) -> None:
    try:
        found = link.command(b"CONFIG", b"GET", b"appendfsync")
    except QueueStoreError as error:
        raise QueueStoreError(
            f"durability='power' needs `appendfsync always`, and the Redis server at {link.shown} does not show its "
            f"settings: {error}",
            path=link.shown,
        ) from error
    sync = found[1].decode() if len(found) > 1 else "unknown"
    if info.get("aof_enabled") != "1" or sync != "always":
        raise QueueStoreError(
            f"durability='power' needs `appendonly yes` and `appendfsync always`; the Redis server at {link.shown} has "
            f"appendonly {'yes' if info.get('aof_enabled') == '1' else 'no'} and appendfsync {sync}",
            path=link.shown,
        )


def _info(link: Link) -> dict[str, str]:
    lines = link.command(b"INFO").decode("utf-8", "replace").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line and not line.startswith("#"))


def _nodes(link: Link) -> list[tuple[str, int]]:
    """The nodes of a cluster, for when the one that the url names is gone."""
    slots: list[Any] = link.command(b"CLUSTER", b"SLOTS")
    nodes = {(node[0].decode(), int(node[1])) for slot in slots for node in slot[2:] if node[0]}
    return sorted(nodes)


def open_namespace(link: Link, root: bytes, namespace: str) -> int:
    """The secret of a namespace, which is made on first use."""
    secret = str(new_secret()).encode()
    version, name, found = link.call("opened", (b"1", root), again=True)
    if version is None:
        version, name, found = link.call("namespace", (b"1", root, namespace.encode(), secret), again=True)
    if version != VERSION:
        raise QueueStoreVersionError(
            f"namespace {namespace!r} at {link.shown} has data version {version.decode()}; this release knows "
            f"{VERSION.decode()}. A newer release wrote it: upgrade localqueue",
            path=link.shown,
        )
    if name != namespace.encode():
        raise QueueStoreError(f"the keys of namespace {namespace!r} at {link.shown} belong to another", path=link.shown)
    return int(found)
