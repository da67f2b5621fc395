"""The way to the server: connections for any number of threads, and what to do when one of them breaks.

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
from collections.abc import Callable, Sequence
from typing import Any

from localqueue.errors import QueueStoreClosedError, QueueStoreError
from localqueue.stores.redis import library
from localqueue.stores.redis.driver import PASSING, ServerError, load, translate, unavailable, without_password
from localqueue.stores.redis.wire import Wire, pack

_MOST_IDLE = 64
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.005, 0.2
_MOST_HOPS = 5
_FOR_A_POOL = ("max_connections", "timeout")

Address = tuple[str, int]
Command = tuple[bytes, ...]


class Link:
    def __init__(self, url: str, *, timeout: float) -> None:
        self.shown = without_password(url)
        self._redis = load()
        self._timeout = timeout
        self._options = self._connection_options(url)
        self._class = self._options.pop("connection_class", self._redis.Connection)
        self._idle: deque[Wire] = deque()
        self._all: weakref.WeakSet[Wire] = weakref.WeakSet()
        self._tracking = threading.Lock()
        self._closed = False
        self.node: Address | None = None  # where the namespace's slot is, when that is not where the url leads
        self.is_cluster = False
        self.others: list[Address] = []  # more nodes of the same cluster, for when this one is gone

    def _connection_options(self, url: str) -> dict[str, Any]:
        try:
            parsed = self._redis.connection.parse_url(url.replace("+cluster://", "://", 1))
        except ValueError:  # its text may show a part of the password
            raise ValueError(f"can not open {self.shown!r}: use redis://host:6379/0, rediss:// or unix://") from None
        options: dict[str, Any] = dict(parsed)
        for name in _FOR_A_POOL:
            options.pop(name, None)
        options.update(
            protocol=2,
            decode_responses=False,
            retry=None,
            retry_on_timeout=False,
            health_check_interval=0,
        )
        options.setdefault("socket_timeout", self._timeout)
        options.setdefault("socket_connect_timeout", min(self._timeout, 5.0))
        options.setdefault("socket_keepalive", True)
        if "path" in options:  # a unix socket
            options.pop("socket_keepalive")
            options.pop("socket_connect_timeout")
        return options

    def adopt(self, other: Link) -> None:
        """Know the cluster as another link does."""
        self.is_cluster, self.node, self.others = other.is_cluster, other.node, list(other.others)

    # asking

    def call(self, name: str, parts: Sequence[bytes], *, again: bool = False) -> Any:
        """Call a function of the library; `parts` begin with the number of keys."""
        command = pack((b"FCALL", library.FULL_NAMES[name], *parts))
        return self.ask(command, again=again)

    def command(self, *parts: bytes, again: bool = True) -> Any:
        return self.ask(pack(parts), again=again)

    def ask(self, command: bytes, *, again: bool = False) -> Any:
        """The answer to one command."""
        wire = self._take()
        try:
            answer = wire.ask(command)
        except ServerError as error:
            self._give(wire)
            return self._answered(command, error)
        except (OSError, ValueError, EOFError) as error:
            self._drop(wire, all_of_them=True)
            self._require_open()
            if again:
                return self.ask(command)
            raise unavailable(self.shown, error) from error
        except BaseException:
            self._drop(wire)
            raise
        self._give(wire)
        return answer

    def snapshot(self, watched: Sequence[bytes], plan: Callable[[Callable[..., Any]], Sequence[Command]]) -> list[Any]:
        """The answers to commands that the server executes at one moment.

        `plan` says which, after asking what it needs to know for that; it is asked again when a watched key changes
        before the commands are executed.
        """
        self.command(b"EXISTS", watched[0])  # so that the slot of a cluster is looked for where it is
        wire = self._take()
        try:
            while True:
                wire.ask(pack((b"WATCH", *watched)))
                commands = plan(lambda *parts: wire.ask(pack(parts)))
                *_, answers = wire.ask_together([pack((b"MULTI",)), *map(pack, commands), pack((b"EXEC",))])
                if answers is not None:
                    break
        except ServerError as error:
            self._drop(wire)
            raise translate(error, self.shown) from None
        except (OSError, ValueError, EOFError) as error:
            self._drop(wire, all_of_them=True)
            raise unavailable(self.shown, error) from error
        except BaseException:
            self._drop(wire)
            raise
        self._give(wire)
        return list(answers)

    def _answered(self, command: bytes, error: ServerError) -> Any:
        """The server has not executed the command: go where it says, or wait, or make the error ours."""
        deadline = time.monotonic() + self._timeout
        pause, hops = _SHORTEST_PAUSE, 0
        while True:
            asking = False
            if error.code in ("MOVED", "ASK"):
                hops += 1
                asking = self._follow(error)
            elif "Function not found" in error.text:
                hops += 1
                self.load_library()
            elif error.code not in PASSING:
                raise translate(error, self.shown) from None
            if hops > _MOST_HOPS or error.code in PASSING:
                if time.monotonic() > deadline:
                    raise translate(error, self.shown) from None
                time.sleep(random.uniform(pause / 2, pause))
                pause, hops = min(pause * 2, _LONGEST_PAUSE), 0
            try:
                return self._once(command, error if asking else None)
            except ServerError as another:
                error = another

    def _once(self, command: bytes, ask: ServerError | None = None) -> Any:
        wire = self._take() if ask is None else self._connect(_address(ask))
        try:
            if ask is not None:
                wire.ask(pack((b"ASKING",)))
            answer = wire.ask(command)
        except ServerError:
            self._give(wire) if ask is None else self._drop(wire)
            raise
        except (OSError, ValueError, EOFError) as error:
            self._drop(wire, all_of_them=True)
            raise unavailable(self.shown, error) from error
        except BaseException:
            self._drop(wire)
            raise
        self._give(wire) if ask is None else self._drop(wire)
        return answer

    def _follow(self, error: ServerError) -> bool:
        """Whether to ask another node this once; a slot that has moved for good is looked for there from now on."""
        if error.code == "ASK":
            return True
        self.node = _address(error)
        self._drop_idle()
        return False

    def load_library(self) -> None:
        """Hand the library to the server. Its name is a digest of its text: one that is there already is the same."""
        try:
            self._once(pack((b"FUNCTION", b"LOAD", library.TEXT.encode())))
        except ServerError as error:
            if "already exists" not in error.text:
                if "unknown command" in error.text.lower():
                    raise QueueStoreError(
                        f"the Redis server at {self.shown} has no FUNCTION command: version 7.0 or newer is needed",
                        path=self.shown,
                    ) from None
                raise translate(error, self.shown) from None

    # connections

    def _take(self) -> Wire:
        self._require_open()
        while True:
            try:
                wire = self._idle.pop()
            except IndexError:
                return self._connect(self.node)
            if not wire.is_stale():
                return wire
            self._drop(wire)

    def _give(self, wire: Wire) -> None:
        if self._closed or len(self._idle) >= _MOST_IDLE:
            self._drop(wire)
            return
        self._idle.append(wire)
        self._close_if_closed()

    def _close_if_closed(self) -> None:
        """`close()` may have passed by while a connection was in use."""
        if self._closed:
            self._drop_idle()

    def _connect(self, address: Address | None) -> Wire:
        """A new connection to a node; if it is gone, to where the url leads, and then to any other that is known."""
        tried: list[Address | None] = [address] if address is None else [address, None]
        tried += [other for other in self.others if other not in tried]
        failure: Exception | None = None
        for one in tried:
            try:
                return self.new_wire(one)
            except (self._redis.exceptions.RedisError, OSError) as error:
                failure = failure or error
        assert failure is not None
        if isinstance(failure, self._redis.exceptions.AuthenticationError):
            raise QueueStoreError(f"the Redis server at {self.shown} refuses this user: {failure}", path=self.shown)
        raise unavailable(self.shown, failure) from failure

    def new_wire(self, address: Address | None = None) -> Wire:
        options = dict(self._options)
        if address is not None:
            host, port = address
            options.update(host=host or options.get("host", "localhost"), port=port)
        connection = self._class(**options)
        try:
            connection.connect()
            wire = Wire(connection)
        except BaseException:
            connection.disconnect()
            raise
        with self._tracking:
            self._all.add(wire)
        return wire

    def listening_wire(self) -> Wire:
        """A connection of the listener's own, which outlives this store if others listen too."""
        return self._connect(self.node)

    def _drop(self, wire: Wire, *, all_of_them: bool = False) -> None:
        wire.close()
        if all_of_them:  # the server went away: the others are no better
            self._drop_idle()

    def _drop_idle(self) -> None:
        while True:
            try:
                self._idle.pop().close()
            except IndexError:
                return

    def _require_open(self) -> None:
        if self._closed:
            raise QueueStoreClosedError(f"the store at {self.shown} is closed", path=self.shown)

    def close(self) -> None:
        self._closed = True
        self._drop_idle()

    # fork

    def abandon(self) -> None:
        """In a child: what was inherited belongs to the parent."""
        for wire in list(self._all):
            wire.abandon()
        self._idle.clear()
        self._all = weakref.WeakSet()
        self._tracking = threading.Lock()


def _address(error: ServerError) -> Address:
    host, _, port = error.text.split()[2].rpartition(":")
    return host, int(port)
