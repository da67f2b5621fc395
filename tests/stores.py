"""All six stores by name, the servers some of them live on, and places where a test keeps its data to itself."""

from __future__ import annotations

import importlib
import secrets
from pathlib import Path
from typing import Any, NamedTuple

from tests.servers import MongoDB, Postgres, Redis, Server, shared

OPENERS = {
    "memory": ("localqueue.stores.sqlite", "MemoryQueueStore"),
    "sqlite": ("localqueue.stores.sqlite", "SQLiteQueueStore"),
    "lmdb": ("localqueue.stores.lmdb", "LMDBQueueStore"),
    "postgres": ("localqueue.stores.postgres", "PostgresQueueStore"),
    "redis": ("localqueue.stores.redis", "RedisQueueStore"),
    "mongodb": ("localqueue.stores.mongodb", "MongoDBQueueStore"),
}

SERVERS: dict[str, type[Server]] = {"postgres": Postgres, "redis": Redis, "mongodb": MongoDB}

#: The stores that several processes can open.
SHARED = tuple(kind for kind in OPENERS if kind != "memory")


class Place(NamedTuple):
    """Where a store is. Plain values, so that it can be told to another process."""

    kind: str
    location: str
    namespace: str = "default"

    def open(self, **options: Any) -> Any:
        module, name = OPENERS[self.kind]
        where = () if self.kind == "memory" else (self.location,)
        return getattr(importlib.import_module(module), name)(*where, **{"namespace": self.namespace, **options})

    @property
    def url(self) -> str:
        """The address for `open_store`."""
        return self.location if "://" in self.location else f"{self.kind}:///{self.location}"

    def beside(self, namespace: str) -> Place:
        """Another namespace at the same place."""
        return self._replace(namespace=namespace)


def new_place(kind: str, folder: Path) -> Place:
    """A place for one test: a file in its folder, or a namespace on the server that the process shares."""
    if kind in SERVERS:
        return on_server(shared(SERVERS[kind]))
    return Place(kind, str(folder / f"queues.{kind}"))


def on_server(server: Server) -> Place:
    return Place(server.name, server.url, f"test-{secrets.token_hex(8)}")
