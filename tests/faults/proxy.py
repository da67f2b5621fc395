"""A TCP proxy that stands between a store and its server and breaks connections at chosen places.

It knows nothing of what it forwards. On each connection the two sides take turns; a request is what the client sends
when it is its turn, an answer is what the server sends behind it. `cut` ends the connection of the nth request from
now on: before the request reaches the server, after the server has answered but before the client hears of it, or in
the middle of the answer. `block` is a server that can not be reached, `silence` is a network that swallows
everything and delivers it late.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, NamedTuple, Self

Where = Literal["before", "after", "middle"]

PLACES: tuple[Where, ...] = ("before", "after", "middle")

_CHUNK = 1 << 16


class _Cut(NamedTuple):
    nth: int
    where: Where | None  # None: not a cut, but silence
    for_good: bool


class _Connection:
    """One client, one connection to the server, and a thread for each direction."""

    def __init__(self, proxy: Proxy, client: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = socket.create_connection(("127.0.0.1", proxy.target), timeout=5)
        self.server.settimeout(None)
        for end in (client, self.server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.heard = threading.Event()
        self.heard.set()
        self.said = bytearray()
        self.clients_turn = True
        self.doomed: Where | None = None
        self.threads = [
            threading.Thread(target=self._forward, args=(self.client, self.server, self._asked), daemon=True),
            threading.Thread(target=self._forward, args=(self.server, self.client, self._answered), daemon=True),
        ]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def _forward(self, source: socket.socket, target: socket.socket, look: Callable[[bytes], int]) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                kept = look(data)
                self._wait_until_heard()
                target.sendall(data[:kept])
                if kept < len(data):
                    break
        self._wait_until_heard()  # a side that went away is not noticed by the other one in the silence
        self.close()

    def _wait_until_heard(self) -> None:
        self.proxy._heard.wait()
        self.heard.wait()

    def _asked(self, data: bytes) -> int:
        """How many bytes of what the client says go on."""
        with self.proxy._lock:
            self.said += data
            if self.clients_turn:
                self.clients_turn = False
                self.doomed = self.proxy._strikes()
            return 0 if self.doomed == "before" else len(data)

    def _answered(self, data: bytes) -> int:
        with self.proxy._lock:
            self.clients_turn = True
            if self.doomed is None:
                return len(data)
            return len(data) // 2 if self.doomed == "middle" else 0

    def close(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.proxy._closed(self)

    def release(self) -> None:
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(5.0)
        self.client.close()
        self.server.close()


class Proxy:
    """Forwards a free local port to the `target` port, until the block ends."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._lock = threading.RLock()
        self._heard = threading.Event()
        self._heard.set()
        self._reachable = True
        self._cut: _Cut | None = None
        self._next: Callable[[], _Cut] | None = None
        self._requests = 0
        self._has_cut = threading.Event()
        self.cuts = 0  # how many connections were cut so far
        self._connections: set[_Connection] = set()
        self._ended: list[_Connection] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._acceptor = threading.Thread(target=self._accept, daemon=True)

    # breaking things

    def cut(self, nth: int, where: Where, *, for_good: bool = False) -> None:
        """End the connection of the nth request from now on. With `for_good` nothing gets through until `mend`."""
        with self._lock:
            self._cut, self._requests = _Cut(nth, where, for_good), 0
            self._has_cut.clear()

    def silence_at(self, nth: int) -> None:
        """Fall silent at the nth request from now on, before the server hears of it."""
        with self._lock:
            self._cut, self._requests = _Cut(nth, None, False), 0
            self._has_cut.clear()

    def flap(self, chance: random.Random, fewest: int, most: int) -> None:
        """Cut again and again, after so many requests each time, at any place."""
        self._next = lambda: _Cut(chance.randint(fewest, most), chance.choice(PLACES), False)
        with self._lock:
            self._cut, self._requests = self._next(), 0
            self._has_cut.clear()

    def requests(self) -> int:
        """How many requests came since this was asked last, or since a cut was ordered."""
        with self._lock:
            count, self._requests = self._requests, 0
            return count

    @property
    def has_cut(self) -> bool:
        return self._has_cut.is_set()

    def block(self) -> None:
        """End all connections and take no more."""
        with self._lock:
            self._reachable = False
        self.drop()

    def drop(self) -> None:
        """End all connections; new ones are welcome."""
        with self._lock:
            connections = list(self._connections)
        for connection in connections:
            connection.close()

    def silence(self) -> None:
        """Hold everything back; nobody is told that anything is wrong."""
        self._heard.clear()

    @property
    def is_silent(self) -> bool:
        return not self._heard.is_set()

    def mute(self, word: bytes) -> int:
        """Silence the connections on which the client has said this word; how many those are."""
        with self._lock:
            muted = [connection for connection in self._connections if word in connection.said]
        for connection in muted:
            connection.heard.clear()
        return len(muted)

    def mend(self) -> None:
        """Let everything through from now on, what was held back first."""
        with self._lock:
            self._cut, self._next, self._reachable = None, None, True
            connections = [*self._connections, *self._ended]
        self._heard.set()
        for connection in connections:
            connection.heard.set()

    # the rest of it

    def _strikes(self) -> Where | None:
        """Counts a request; where its connection is to be cut."""
        if not self._reachable:
            return "before"
        self._requests += 1
        if self._cut is None or self._requests != self._cut.nth:
            return None
        where = self._cut.where
        if where is None:
            self._heard.clear()
        else:
            self.cuts += 1
        if self._cut.for_good:
            self._reachable = False
        self._cut, self._requests = self._next() if self._next else None, 0
        self._has_cut.set()
        return where

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            with self._lock:
                welcome = self._reachable
            if not welcome:
                client.close()
                continue
            try:
                connection = _Connection(self, client)
            except OSError:  # the server is down
                client.close()
                continue
            with self._lock:
                self._connections.add(connection)
            connection.start()
            self._release_ended()

    def _closed(self, connection: _Connection) -> None:
        with self._lock:
            if connection in self._connections:
                self._connections.discard(connection)
                self._ended.append(connection)

    def _release_ended(self) -> None:
        """Let go of connections whose both sides are done, so that a proxy may live for any number of them."""
        with self._lock:
            done = [one for one in self._ended if not any(thread.is_alive() for thread in one.threads)]
            self._ended = [one for one in self._ended if one not in done]
        for connection in done:
            connection.release()

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._acceptor.join(5.0)
        self.mend()
        self.drop()
        for connection in self._ended:
            connection.release()

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
