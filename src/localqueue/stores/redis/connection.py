"""The way to the server: connections for any number of threads, and what to do when one of them breaks.

The driver connects, authenticates, encrypts and parses; its pool and its client are not used, because they would cost
more than a call (`benchmarks/on_servers/resp_client.py`).

A command that was answered with an error was not executed and may be sent again, if another answer is to be expected:
while the server loads its data, after a slot of a cluster has moved, when a function is not there yet. A command whose
answer never came may have been executed; it is sent again only if the caller says that this does no harm.
"""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from localqueue.errors import QueueStoreClosedError, QueueStoreError
from localqueue.stores.address import parse
from localqueue.stores.redis.errors import PASSING, code_of, is_passing, translate, unavailable
from localqueue.stores.redis.schema import LIBRARY

_MOST_IDLE = 64
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2
_MOST_HOPS = 5
_JUST_NOW = 50e-6  # for so long after an answer, a connection is not looked at before it is used again
_FOR_A_POOL = ("max_connections", "timeout")

Address = tuple[str, int]
Command = tuple[bytes, ...]

#: A command, and whether it does no harm to send it again when its answer never came.
Question = tuple[Command, bool]


def pack(command: Command) -> bytes:
    """A command as the protocol wants it. The driver does the same, but takes longer for it than the rest of a call."""
    return b"*%d\r\n" % len(command) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in command])


def send(connection: Any, *command: bytes) -> None:
    connection.send_packed_command((pack(command),), check_health=False)


def load() -> Any:
    """The driver, or a `RuntimeError` that says how to install it."""
    try:
        import msgpack  # noqa: F401
        import redis
    except ImportError as error:
        raise RuntimeError(
            'Redis support requires the optional dependency; install with `pip install "localqueue[redis]"`'
        ) from error
    return redis


class Connections:
    def __init__(self, url: str, *, timeout: float, library: bytes | None = None) -> None:
        self._address = parse(url)
        self.shown = self._address.shown
        self._library = LIBRARY if library is None else library
        self._redis = load()
        self._answers = (
            *(self._redis.exceptions.ResponseError, self._redis.exceptions.BusyLoadingError),
            self._redis.exceptions.AuthenticationError,
        )
        self._timeout = timeout
        self._class, self._options = self._read_address()
        self.silence: float | None = self._options["socket_timeout"]  # that is too long
        #: Whether an event loop can read its connections: not what is encrypted.
        self.suits_loops = self._redis.utils.HIREDIS_AVAILABLE and not issubclass(
            self._class, self._redis.SSLConnection
        )
        self._idle: deque[tuple[Any, float]] = deque(maxlen=_MOST_IDLE)  # one that falls out of it is closed
        self._all: weakref.WeakSet[Any] = weakref.WeakSet()
        self._tracking = threading.Lock()
        self._closed = False
        self.node: Address | None = None  # where the namespace's slot is, when that is not where the url leads
        self.is_cluster = False
        self.others: list[Address] = []  # more nodes of the same cluster, for when this one is gone

    def _read_address(self) -> tuple[Any, dict[str, Any]]:
        """The kind of connection that an address asks for, and what to make it with."""
        try:
            parsed = self._redis.connection.parse_url(self._address.url.replace("+cluster://", "://", 1))
            kind, options = parsed.pop("connection_class", self._redis.Connection), self._connection_options(parsed)
            kind(**options)  # which connects to nothing yet, and knows its parameters
            return kind, options
        except (TypeError, ValueError) as error:
            refused = self._address.unreadable(error, "redis://host:6379/0, rediss:// or unix://")
        raise refused

    def _connection_options(self, parsed: dict[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {name: value for name, value in parsed.items() if name not in _FOR_A_POOL}
        options.update(protocol=2, decode_responses=False, retry=None, retry_on_timeout=False, health_check_interval=0)
        options.setdefault("socket_timeout", self._timeout)
        if "path" not in options:  # not a unix socket
            options.setdefault("socket_connect_timeout", min(self._timeout, 5.0))
            options.setdefault("socket_keepalive", True)
        return options

    def adopt(self, other: Connections) -> None:
        """Know the cluster as another does."""
        self.is_cluster, self.node, self.others = other.is_cluster, other.node, list(other.others)

    # asking

    def ask(self, *command: bytes, again: bool = False) -> Any:
        """The answer to one command."""
        return self.answer((command, again))

    def answer(self, question: Question) -> Any:
        (command, again), node, patience = question, None, None
        while True:
            try:
                return self._once(command, node)
            except self._answers as error:
                patience = patience or _Patience(self._timeout)
                node = self._next_node(error, patience)
            except self._redis.exceptions.RedisError as error:
                self._drop_idle()  # the server went away: the others are no better
                self.require_open()
                if not again:
                    raise unavailable(self.shown, error) from error
                again = False

    def translate(self, error: Exception) -> QueueStoreError:
        """What the caller gets for an error that the server answered with."""
        return translate(error, self.shown)

    def _once(self, command: Command, node: Address | None = None) -> Any:
        """Ask where the namespace is, or this once another node."""
        connection = self._take() if node is None else self._connect(node)
        try:
            if node is not None:
                send(connection, b"ASKING")
                connection.read_response()
            connection.send_packed_command((pack(command),), check_health=False)
            answer = connection.read_response()
        except BaseException as error:
            self._give(connection, node is None and isinstance(error, self._redis.exceptions.ResponseError))
            raise
        self._give(connection, node is None)
        return answer

    def refusal(self, *command: bytes) -> str:
        """What the server says to a command that it is known to refuse."""
        connection = self._connect(self.node)
        try:
            send(connection, *command)
            connection.read_response()
        except self._answers as error:
            return str(error)
        finally:
            connection.disconnect()
        return ""

    def _next_node(self, error: Exception, patience: _Patience) -> Address | None:
        """The server has not executed the command: where to ask next, after a rest perhaps, or the error made ours."""
        if not is_passing(error):
            raise self.translate(error) from None
        code, node = code_of(error), None
        if code == "ASK":
            node = _address(error)
        elif code == "MOVED":
            self.node = _address(error)
            self._drop_idle()
        elif code not in PASSING:
            self.load_library()
        if not patience.goes_on(passing=code in PASSING):
            raise self.translate(error) from None
        return node

    def snapshot(self, plan: Callable[[Any], None], *watched: bytes) -> list[Any]:
        """The answers to commands that the server executes at one moment: a `transaction` of the driver's client."""
        self.ask(b"EXISTS", watched[0], again=True)  # so that the slot of a cluster is looked for where it is
        pool = self._redis.ConnectionPool(self._class, **self._options_for(self.node))
        try:
            answers: list[Any] = self._redis.Redis(connection_pool=pool).transaction(plan, *watched)
        except self._answers as error:
            raise self.translate(error) from None
        except self._redis.exceptions.RedisError as error:
            raise unavailable(self.shown, error) from error
        finally:
            pool.disconnect()
        return answers

    def load_library(self) -> None:
        """Hand the library to the server. Its name is a digest of its text: one that is there already is the same."""
        try:
            self._once((b"FUNCTION", b"LOAD", self._library))
        except self._answers as error:
            if "already exists" in str(error):
                return
            if "unknown command" in str(error).lower():
                raise QueueStoreError(
                    f"the Redis server at {self.shown} has no FUNCTION command: version 7.0 or newer is needed",
                    path=self.shown,
                ) from None
            raise self.translate(error) from None

    # connections

    def _take(self) -> Any:
        self.require_open()
        while True:
            try:
                connection, since = self._idle.pop()
            except IndexError:
                return self._connect(self.node)
            try:
                if time.monotonic() - since < _JUST_NOW or not connection.can_read(0):
                    return connection
            except self._redis.exceptions.RedisError:
                pass  # the server has closed it
            connection.disconnect()

    def _give(self, connection: Any, good: bool) -> None:
        if good:
            self._idle.append((connection, time.monotonic()))
        else:
            connection.disconnect()
        if self._closed:  # `close()` has passed by while it was in use
            self._drop_idle()

    def _connect(self, address: Address | None) -> Any:
        """A new connection to a node; if it is gone, to where the url leads, and then to any other that is known."""
        tried: list[Address | None] = [address] if address is None else [address, None]
        tried += [other for other in self.others if other not in tried]
        failure: Exception | None = None
        for one in tried:
            try:
                return self._new(one)
            except (self._redis.exceptions.RedisError, OSError) as error:
                failure = failure or error
        assert failure is not None
        if isinstance(failure, self._redis.exceptions.AuthenticationError):
            raise QueueStoreError(f"the Redis server at {self.shown} refuses this user: {failure}", path=self.shown)
        if isinstance(failure, self._redis.exceptions.NoPermissionError):
            raise self.translate(failure)
        raise unavailable(self.shown, failure) from failure

    def _options_for(self, address: Address | None) -> dict[str, Any]:
        if address is None:
            return self._options
        host, port = address
        return {**self._options, "host": host or self._options.get("host", "localhost"), "port": port}

    def _new(self, address: Address | None) -> Any:
        connection = self._class(**self._options_for(address))
        try:
            connection.connect()
        except BaseException as error:
            self._address.cleanse(error)
            connection.disconnect()
            raise
        with self._tracking:
            self._all.add(connection)
        return connection

    def new(self) -> Any:
        """A connection of the caller's own, which outlives this store if it likes."""
        return self._connect(self.node)

    def open_for_loop(self) -> tuple[Any, Address | None]:
        """A connection that is asked on an event loop, and where it was to lead."""
        self.require_open()
        node = self.node
        return self._connect(node), node

    def _drop_idle(self) -> None:
        while True:
            try:
                self._idle.pop()[0].disconnect()
            except IndexError:
                return

    def require_open(self) -> None:
        if self._closed:
            raise QueueStoreClosedError(f"the store at {self.shown} is closed", path=self.shown)

    def close(self) -> None:
        self._closed = True
        self._drop_idle()

    def abandon(self) -> None:
        """In a child: what was inherited belongs to the parent, and is let go of without a word."""
        for connection in list(self._all):
            connection.disconnect()
        self._idle.clear()
        self._all = weakref.WeakSet()
        self._tracking = threading.Lock()


class _Patience:
    """How long a command is sent again: at once a few times when it is told where to go, else with growing pauses."""

    def __init__(self, timeout: float) -> None:
        self._deadline = time.monotonic() + timeout
        self._pause, self._hops = _SHORTEST_PAUSE, 0

    def goes_on(self, *, passing: bool) -> bool:
        self._hops += 1
        if passing or self._hops > _MOST_HOPS:
            if time.monotonic() > self._deadline:
                return False
            time.sleep(random.uniform(self._pause / 2, self._pause))
            self._pause, self._hops = min(self._pause * 2, _LONGEST_PAUSE), 0
        return True


def _address(error: Exception) -> Address:
    host, _, port = str(error).split()[-1].rpartition(":")
    return host, int(port)
