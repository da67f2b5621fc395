"""Opening a store by its address."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any
from urllib.parse import quote, unquote

from localqueue.errors import QueueStoreMissingError
from localqueue.stores.address import parse, shown
from localqueue.stores.port import OpenedStore

#: The stores, by the name `configure(db_backend=)` has for them: where the class is, and the addresses it takes.
BACKENDS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "sqlite": ("localqueue.stores.sqlite", "SQLiteQueueStore", ("sqlite",)),
    "lmdb": ("localqueue.stores.lmdb", "LMDBQueueStore", ("lmdb",)),
    "memory": ("localqueue.stores.sqlite", "MemoryQueueStore", ("memory",)),
    "pg": ("localqueue.stores.postgres", "PostgresQueueStore", ("postgresql", "postgres")),
    "redis": ("localqueue.stores.redis", "RedisQueueStore", ("redis", "rediss", "redis+cluster")),
    "mongodb": ("localqueue.stores.mongodb", "MongoDBQueueStore", ("mongodb", "mongodb+srv")),
}
_BACKEND_OF = {scheme: backend for backend, (_, _, schemes) in BACKENDS.items() for scheme in schemes}
_FORMS = "sqlite:///file.db, lmdb:///directory, memory://, postgresql://..., redis://... or mongodb://..."


def open_store(url: str, *, namespace: str = "default", read_only: bool = False, **options: Any) -> OpenedStore:
    """Open the store at `url`, made on first use. With `read_only` it is opened to look: nothing is made or changed,
    and where there is no store that is a `QueueStoreMissingError`.

    `sqlite:///jobs.db` is a file relative to the working directory, `sqlite:////var/lib/jobs.db` an absolute one;
    `lmdb:///jobs` is a directory, by the same rule; `memory://` lives and dies with this process. Servers are
    `postgresql://user:password@host:5432/database`, `redis://host:6379/0` (also `rediss://` and `redis+cluster://`) and
    `mongodb://host:27017/database` (also `mongodb+srv://`). `options` go to the store: `durability=`, `timeout=`,
    `clock=`, and what it has of its own.
    """
    backend = checked(url)
    module, name, _ = BACKENDS[backend]
    store: Any = getattr(import_module(module), name)
    opened: OpenedStore
    if read_only:
        options["read_only"] = True
    if backend == "memory":
        if read_only:
            raise QueueStoreMissingError("there is no store at 'memory://': one in memory begins empty")
        opened = store(namespace=namespace, **options)
    elif backend in ("sqlite", "lmdb"):
        opened = store(path_of(url), namespace=namespace, **options)
    else:
        opened = store(url, namespace=namespace, **options)
    return opened


def backend_of(url: str) -> str:
    """The store that an address belongs to, by its name in `BACKENDS`."""
    if not isinstance(url, str):
        raise TypeError(f"the address of a store is a text such as sqlite:///jobs.db, not a {type(url).__name__}")
    scheme = url.partition(":")[0].lower()
    if scheme not in _BACKEND_OF or not url.startswith("://", len(scheme)):
        raise ValueError(f"can not open {shown(url)!r}: the address of a store is {_FORMS}")
    return _BACKEND_OF[scheme]


def checked(url: str) -> str:
    """The same, once it is known that the address can be read; ValueError where a store would refuse it."""
    backend = backend_of(url)
    if backend == "memory":
        if url.lower().rstrip("/") != "memory:":
            raise ValueError(f"can not open {shown(url)!r}: a store in memory has no name, it is memory://")
    elif backend in ("sqlite", "lmdb"):
        path_of(url)
    else:
        parse(url)
    return backend


def absolute(url: str) -> str:
    """The same address for a process in any directory: a relative path is taken from this one."""
    if checked(url) not in ("sqlite", "lmdb"):
        return url
    return f"{url.partition(':')[0].lower()}:///{quote(os.path.abspath(path_of(url)))}"


def path_of(url: str) -> str:
    """The path of a local store."""
    rest = url.partition("://")[2]
    name = unquote(re.split("[?#]", rest[1:])[0])
    if not rest.startswith("/") or not name:
        raise ValueError(
            f"can not open {shown(url)!r}: a local store is named by a path, as in sqlite:///jobs.db (relative) or "
            "sqlite:////var/lib/jobs.db (absolute)"
        )
    return name
