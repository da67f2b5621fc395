"""What every ASGI application of this package has in common."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def live(receive: Receive, send: Send) -> None:
    """Answer the server that it may begin, and that it may end: there is nothing to do for either."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


async def answer(send: Send, status: int, text: str = "", headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
    """A whole answer, of one line or of none."""
    body = f"{text}\n".encode() if text else b""
    said = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*(said if text else ()), *headers]})
    await send({"type": "http.response.body", "body": body})
