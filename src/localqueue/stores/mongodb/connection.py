"""One client for each server and database that this process uses, shared by all stores on it.

A client brings its own pool of connections and the threads that watch the server, so there is one for each address.
It is replaced in a forked child, where the inherited one is neither used nor closed.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
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
from localqueue.stores.mongodb import errors, schema
from localqueue.stores.mongodb.gate import Looks
from localqueue.stores.mongodb.transaction import Orphans

DEFAULT_DATABASE = "localqueue"

_SAMPLES = 4
_GOOD_FOR = 30.0  # seconds until the clocks are compared again
_DRIFT = 0.5  # between the two clocks of this machine: it was suspended, or somebody set the time
_SHORTEST_SILENCE = 5.0  # seconds; a listener is silent for some of them

_servers: dict[tuple[str, float], Server] = {}
lock = threading.RLock()
_abandoned: list[object] = []  # clients of the parent, which a child must not even close


class ServerClock(TopologyListener):
    """The server's clock, as seen from here; `ask` returns the server's time in seconds.

    MongoDB can not put its own time into an inserted document, so the time is known beforehand: the difference between
    the server's clock and this machine's monotonic one, from the quickest of a few questions. The clock on this
    machine's wall has no part in it. The answer is right to about half a round trip plus a millisecond, the server's
    resolution; leases are fenced by their tokens and do not depend on it.
    """

    def __init__(self, ask: Callable[[], float]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._offset = 0.0
        self._measured_at = float("-inf")
        self._between = 0.0  # wall minus monotonic time of this machine, when the offset was measured

    def __call__(self) -> float:
        monotonic = time.monotonic()
        if monotonic - self._measured_at > _GOOD_FOR or not self._holds():
            self._measure()
        return time.monotonic() + self._offset

    def doubt(self) -> None:
        """Measure before the next answer: the server may be another one now."""
        self._measured_at = float("-inf")

    def _measure(self) -> None:
        with self._lock:
            if time.monotonic() - self._measured_at <= 1.0 and self._holds():
                return  # another thread has just done it
            best = float("inf")
            for _ in range(_SAMPLES):
                before = time.monotonic()
                server = self._ask()
                after = time.monotonic()
                if after - before < best:
                    best = after - before
                    self._offset = server + 0.0005 - (before + after) / 2  # the server cuts off after milliseconds
            self._between = time.time() - time.monotonic()
            self._measured_at = time.monotonic()

    def _holds(self) -> bool:
        return abs(time.time() - time.monotonic() - self._between) <= _DRIFT

    # what the driver tells

    def opened(self, event: Any) -> None:
        pass

    def closed(self, event: Any) -> None:
        pass

    def description_changed(self, event: Any) -> None:
        """Another primary has another clock."""
        has_one, had_one = (one.has_writable_server() for one in (event.new_description, event.previous_description))
        if has_one and not had_one:
            self.doubt()


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
        self.clock = ServerClock(self._ask)
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
                appname="localqueue",
                socketTimeoutMS=int(max(self.timeout, _SHORTEST_SILENCE) * 1000),
                event_listeners=[self.clock],
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
