"""All six stores by name, the servers some of them live on, and places where a test keeps its data to itself."""

from __future__ import annotations

import importlib
import secrets
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

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

#: How long a call on a server that is cut off may take before it counts as one that hangs.
DEADLINE = 30.0

T = TypeVar("T")


class Place(NamedTuple):
    """Where a store is. Plain values, so that it can be told to another process."""

    kind: str
    location: str
    namespace: str = "default"

    def open(self, **options: Any) -> Any:
        module, name = OPENERS[self.kind]
        where = () if self.kind == "memory" else (self.location,)
        return getattr(importlib.import_module(module), name)(*where, **{"namespace": self.namespace, **options})

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


def through(place: Place, port: int) -> Place:
    """The same place, reached by way of a proxy on that port."""
    return place._replace(
        location={
            "postgres": f"postgresql://test@127.0.0.1:{port}/postgres",
            "redis": f"redis://127.0.0.1:{port}/0",
            # Without directConnection the client would learn the server's own address and go there.
            "mongodb": f"mongodb://127.0.0.1:{port}/?directConnection=true",
        }[place.kind]
    )


_own: dict[str, Server] = {}


def own_server(kind: str) -> Server:
    """A server that a test may kill; the next test that asks finds it running again."""
    if kind not in _own:
        _own[kind] = SERVERS[kind]()
    if _own[kind].process is None:
        _own[kind].start()
    return _own[kind]


def within_deadline(call: Callable[[], T], seconds: float = DEADLINE) -> T:
    """What `call` returns or raises. It fails the test where it would wait for ever."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((True, call()))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        import sys

        where = "".join(traceback.format_stack(sys._current_frames()[thread.ident or 0]))
        raise AssertionError(f"the call still hangs after {seconds} s:\n{where}")
    returned, value = outcome[0]
    if returned:
        return value  # type: ignore[no-any-return]
    raise value
