"""Sending into queues of PGMQ, by its own functions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from localqueue.brokers.pgmq import letter
from localqueue.brokers.pgmq.server import Server
from localqueue.brokers.port import Outgoing
from localqueue.stores.postgres.libpq import Quick, array, float8, int4

_AT = "clock_timestamp() + make_interval(secs => $4::float8)"
_SEND = f"SELECT * FROM pgmq.send($1::text, $2::jsonb, $3::jsonb, {_AT})"
_SEND_BATCH = f"SELECT * FROM pgmq.send_batch($1::text, $2::text[]::jsonb[], $3::text[]::jsonb[], {_AT})"

#: Of a PGMQ without headers, whose delays are whole seconds.
_SEND_BARE = "SELECT * FROM pgmq.send($1::text, $2::jsonb, $3::int4)"
_SEND_BATCH_BARE = "SELECT * FROM pgmq.send_batch($1::text, $2::text[]::jsonb[], $3::int4)"


class Outbox:
    """Messages and queue names come checked."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._send, self._send_bare = server.prepare(_SEND), server.prepare(_SEND_BARE)
        self._send_batch, self._send_batch_bare = server.prepare(_SEND_BATCH), server.prepare(_SEND_BATCH_BARE)

    def send(self, queue: str, one: Outgoing) -> str:
        content = letter.written(one, headers_apart=self._server.offer().headers)
        name, body = queue.encode(), _jsonb(content.message)
        if content.headers is not None:
            values = (name, body, _jsonb(content.headers), float8(one.delay))
            rows = self._server.rows(queue, self._send, values)
        else:
            rows = self._server.rows(queue, self._send_bare, (name, body, int4(math.ceil(one.delay))))
        return str(rows[0][0]) if one.id is None else one.id

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        """All of them, or none."""
        by_delay: dict[float, list[int]] = {}
        for position, one in enumerate(messages):
            by_delay.setdefault(one.delay, []).append(position)
        if len(by_delay) == 1:
            numbers = self._server.rows(queue, *self._alike(queue, messages, messages[0].delay))
        else:
            numbers = self._server.together(queue, lambda open_: self._send_each(open_, queue, messages, by_delay))
        return [str(row[0]) if one.id is None else one.id for one, row in zip(messages, numbers, strict=True)]

    def _send_each(
        self, connection: Any, queue: str, messages: Sequence[Outgoing], by_delay: Mapping[float, list[int]]
    ) -> list[tuple[Any, ...]]:
        found: dict[int, tuple[Any, ...]] = {}
        for delay, positions in by_delay.items():
            rows = self.send_within(connection, queue, [messages[position] for position in positions], delay)
            found.update(zip(positions, rows, strict=True))
        return [found[position] for position in range(len(messages))]

    def send_within(
        self, connection: Any, queue: str, messages: Sequence[Outgoing], delay: float = 0.0
    ) -> list[tuple[Any, ...]]:
        """Send messages of one delay in an open transaction."""
        statement, values = self._alike(queue, messages, delay)
        return statement.rows(connection, values)

    def _alike(self, queue: str, messages: Sequence[Outgoing], delay: float) -> tuple[Quick, Sequence[bytes]]:
        has_headers = self._server.offer().headers
        letters = [letter.written(one, headers_apart=has_headers) for one in messages]
        bodies = array("text", [one.message for one in letters])
        if not has_headers:
            return self._send_batch_bare, (queue.encode(), bodies, int4(math.ceil(delay)))
        headers = array("text", [one.headers for one in letters])
        return self._send_batch, (queue.encode(), bodies, headers, float8(delay))


def _jsonb(text: str) -> bytes:
    """As the server takes it: behind the number of the format."""
    return b"\x01" + text.encode()
