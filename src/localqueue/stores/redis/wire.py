"""One connection to the server.

The driver connects, authenticates and encrypts; after that a command is one write and one read, done here. A call to
the store is a single command with a short answer, and the general machinery of a client would cost more than the call.
"""

from __future__ import annotations

import select
from collections.abc import Sequence
from typing import Any

from localqueue.stores.redis.driver import ServerError

_ENDED = "the server closed the connection"


def pack(parts: Sequence[bytes]) -> bytes:
    """A command as the protocol wants it."""
    return b"*%d\r\n" % len(parts) + b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


class Wire:
    """A connected socket. After any error but a `ServerError` it can not be used again."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.socket = connection._get_socket() if hasattr(connection, "_get_socket") else connection._sock
        self._answers = self.socket.makefile("rb", 1 << 16)
        self._poll = select.poll()
        self._poll.register(self.socket, select.POLLIN)

    def is_stale(self) -> bool:
        """Whether the server has closed the connection, or said something that nobody asked for."""
        return bool(self._poll.poll(0))

    def ask(self, command: bytes) -> Any:
        self.socket.sendall(command)
        return self._read()

    def ask_together(self, commands: Sequence[bytes]) -> list[Any]:
        """Send commands at once; the answers in order. After a `ServerError` the connection can not be used again."""
        self.socket.sendall(b"".join(commands))
        return [self._read() for _ in commands]

    def _read(self) -> Any:
        line = self._answers.readline()
        if line[-2:] != b"\r\n":
            raise ConnectionError(_ENDED)
        kind = line[0]
        if kind == 36:  # $
            size = int(line[1:])
            if size < 0:
                return None
            data = self._answers.read(size + 2)
            if len(data) != size + 2:
                raise ConnectionError(_ENDED)
            return data[:-2]
        if kind == 42:  # *
            size = int(line[1:])
            if size < 0:
                return None
            items = []
            failure = None
            for _ in range(size):
                try:
                    items.append(self._read())
                except ServerError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return items
        if kind == 58:  # :
            return int(line[1:])
        if kind == 43:  # +
            return line[1:-2]
        if kind == 45:  # -
            raise ServerError(line[1:-2].decode("utf-8", "replace"))
        raise ConnectionError(f"the server answered with something that is not its protocol: {line[:40]!r}")

    def receive(self) -> bytes:
        """What has come in unasked, on a connection that is listened to. Something must have."""
        data: bytes = self.socket.recv(1 << 16)
        while data and getattr(self.socket, "pending", int)():  # decrypted already, so that no poll tells of it
            data += self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError(_ENDED)
        return data

    def close(self) -> None:
        self._answers.close()
        self._connection.disconnect()

    def abandon(self) -> None:
        """Let go of a socket that belongs to the parent process, without a word on it."""
        self._answers.close()
        self.socket.close()
