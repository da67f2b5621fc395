"""One client for each server and database that this process uses, shared by all stores on it.

A client brings its own pool of connections and the threads that watch the server, so there is one for each address.
It is replaced in a forked child, where the inherited one is neither used nor closed.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager
from datetime import UTC
from typing import Any

import pymongo
from bson.int64 import Int64
from pymongo.errors import ConfigurationError
from pymongo.monitoring import TopologyListener
from pymongo.read_concern import ReadConcern
from pymongo.read_preferences import ReadPreference
from pymongo.uri_parser import split_options
from pymongo.write_concern import WriteConcern

from localqueue.ids import new_secret
from localqueue.stores import refusals
from localqueue.stores.address import Address, parse
from localqueue.stores.clock import ServerClock
from localqueue.stores.mongodb import errors, schema
from localqueue.stores.mongodb.gate import Looks
from localqueue.stores.mongodb.transaction import APP_NAME, Orphans

DEFAULT_DATABASE = "localqueue"

_RESOLUTION = 0.001  # seconds; the server's clock has no more to say
_SHORTEST_SILENCE = 5.0  # seconds; a listener is silent for some of them

_servers: dict[tuple[str, float], Server] = {}
lock = threading.RLock()
_abandoned: list[object] = []  # clients of the parent, which a child must not even close


class _Primaries(TopologyListener):
    """Another primary has another clock."""

    def __init__(self, clock: ServerClock) -> None:
        self._clock = clock

    def opened(self, event: Any) -> None:
        pass

    def closed(self, event: Any) -> None:
        pass

    def description_changed(self, event: Any) -> None:
        has_one, had_one = (one.has_writable_server() for one in (event.new_description, event.previous_description))
        if has_one and not had_one:
            self._clock.doubt()


class Server:
    """A client, the collections of one database, the server's clock and what is known of the queues' timers."""

    def __init__(self, address: Address, timeout: float) -> None:
        self.address = address
        self.url = address.shown
        self.timeout = timeout
        self.users = 0
        self.open()

    def open(self) -> None:
        self.pid = os.getpid()
        self._prepared = False
        self.clock = ServerClock(self._ask, resolution=_RESOLUTION)
        self.looks = Looks()
        self.orphans = Orphans(self)
        self.client: Any = self._new_client()
        name = self.client.get_default_database(DEFAULT_DATABASE).name
        self.safe = WriteConcern(w="majority", j=True)
        self.database: Any = self.client.get_database(
            name, write_concern=self.safe, read_preference=ReadPreference.PRIMARY, read_concern=ReadConcern("local")
        )
        self.snapshot = ReadConcern("snapshot")
        self.messages: Any = self.database.lq_messages
        self.queues: Any = self.database.lq_queues
        soon = WriteConcern(w=1, j=False)  # for what need not outlive a crash of the server
        self.workers: Any = self.database.get_collection("lq_workers", write_concern=soon)
        self._wakes: Any = self.database.get_collection("lq_wakes", write_concern=soon)

    def _new_client(self) -> Any:
        try:
            if self.address.has_secret_parameters:  # a client only warns of what is wrong in them, and quotes it
                split_options(self.address.url.partition("?")[2], validate=True, warn=False)
            return pymongo.MongoClient(
                self.address.url,
                serverSelectionTimeoutMS=int(self.timeout * 1000),
                connectTimeoutMS=max(1000, int(self.timeout * 1000)),
                retryWrites=True,
                retryReads=True,
                tz_aware=False,
                appname=APP_NAME,
                socketTimeoutMS=int(max(self.timeout, _SHORTEST_SILENCE) * 1000),
                event_listeners=[_Primaries(self.clock)],
            )
        except (ConfigurationError, ValueError, TypeError) as error:
            refused = errors.unreadable(error, self.address)
        raise refused

    def _ask(self) -> float:
        with self.call():
            return float(self.client.admin.command("hello")["localTime"].replace(tzinfo=UTC).timestamp())

    def namespace(self, name: str) -> tuple[int, int]:
        """Number and secret of a namespace, made on first use, with all that the database has to have."""
        with self.call():
            if not self._prepared:
                schema.require_transactions(self.client, self.url)
                schema.prepare(self.database, self.url)
                schema.require_writes(self.database)
                self._prepared = True
            if schema.find_namespace(self.database, name) is None:
                schema.number(self.database.lq_namespaces, {"name": name}, secret=Int64(new_secret()))
        return self.find_namespace(name)

    def find_namespace(self, name: str) -> tuple[int, int]:
        """The same for one who only looks, and makes nothing."""
        with self.call():
            version = schema.version_of(self.database, self.url)
            found = schema.find_namespace(self.database, name) if version else None
        if found is None:
            raise refusals.missing(f"namespace {name!r} in the store" if version else "store", self.url)
        return found

    def call(self) -> AbstractContextManager[None]:
        """For what goes to the server and ends within the timeout."""
        return errors.call(self.address, self.timeout)

    def long_read(self) -> AbstractContextManager[None]:
        """For a read that may take longer than the timeout, as long as the server keeps answering."""
        return errors.call(self.address, None)

    def in_snapshot(self, collection: Any) -> Any:
        """The collection, read at one moment however long that takes."""
        return collection.with_options(read_concern=self.snapshot)

    def tell(self, what: dict[str, Any]) -> None:
        """Have listeners hear what no message tells them."""
        self._wakes.update_one(schema.SAID, {"$set": {"k": what}})

    def close(self) -> None:
        self.orphans.end()
        self.client.close()


def acquire(url: str, timeout: float) -> Server:
    """The server at an address; each `acquire` wants a `release`."""
    address = parse(url)
    with lock:
        server = _servers.get((address.url, timeout))
        if server is None:
            server = _servers[address.url, timeout] = Server(address, timeout)
        server.users += 1
        return server


def release(server: Server) -> None:
    with lock:
        server.users -= 1
        if server.users == 0:
            _servers.pop((server.address.url, server.timeout), None)
            server.close()


# fork: nobody opens or closes a client meanwhile, because the forking one holds the lock; the child opens its own


def renew_in_child(server: Server) -> None:
    """Once for each client, however many stores share it."""
    if server.pid != os.getpid():
        _abandoned.append(server.client)
        server.open()
