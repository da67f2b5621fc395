"""Opening a store by its address."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urlsplit

from localqueue.stores.port import QueueStore


def open_store(url: str, *, namespace: str = "default", **options: Any) -> QueueStore:
    """Open the store at `url`.

    `sqlite:///jobs.db` is a file relative to the working directory, `sqlite:////var/lib/jobs.db` an absolute one;
    `lmdb:///jobs` is a directory, by the same rule; `memory://` lives and dies with this process. `options` go to the
    store: `durability=`, `timeout=`, `clock=`.
    """
    parts = urlsplit(url)
    if parts.scheme == "memory":
        from localqueue.stores.sqlite import MemoryQueueStore

        return MemoryQueueStore(namespace=namespace, **options)
    if parts.scheme == "sqlite":
        from localqueue.stores.sqlite import SQLiteQueueStore

        return SQLiteQueueStore(_path(url, parts.netloc, parts.path), namespace=namespace, **options)
    if parts.scheme == "lmdb":
        from localqueue.stores.lmdb import LMDBQueueStore

        return LMDBQueueStore(_path(url, parts.netloc, parts.path), namespace=namespace, **options)
    raise ValueError(f"can not open {url!r}: use sqlite:///file.db, memory:// or lmdb:///directory")


def _path(url: str, host: str, path: str) -> str:
    name = unquote(path[1:])
    if host or not name:
        raise ValueError(
            f"can not open {url!r}: a local store is named by a path, as in sqlite:///jobs.db (relative) or "
            "sqlite:////var/lib/jobs.db (absolute)"
        )
    return name
