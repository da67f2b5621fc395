"""A feed as an ASGI application: an HTTP GET is answered with server-sent events, a WebSocket with JSON messages."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from localqueue._named_tuple import NamedTuple
from localqueue.notifications.asgi import Receive, Scope, Send, answer, live
from localqueue.notifications.event import Event
from localqueue.notifications.feed import Feed, Subscription

Authorize = Callable[[Scope], "bool | Awaitable[bool]"]

_log = logging.getLogger("localqueue")

_LONGEST_MESSAGE = 65_536  # bytes that a WebSocket client may send at once
_RECONNECT = 1000  # milliseconds after which a client that lost the stream should come back

_REFUSED, _UNREADABLE, _TOO_BIG, _GOING_AWAY = 1008, 1007, 1009, 1001  # why a WebSocket is closed


class Wish(NamedTuple):
    """What a client asks for: the queues, or none for all of them, and the last event it has seen."""

    queues: tuple[str, ...]
    last_event_id: str | None


class FeedApp:
    """Mount it under any path. `?queue=jobs&queue=mail` names the queues to hear of, none means all;
    `last_event_id` resumes, as the header `Last-Event-ID` does.

    `authorize(scope)`, which may be a coroutine function, says whether a client may listen; the queues it asks for are
    in `scope["localqueue.queues"]`. Without it everybody may who reaches the application. After `heartbeat` seconds
    of silence something is sent that means nothing, so that both sides notice when the other is gone.
    """

    def __init__(self, feed: Feed, authorize: Authorize | None = None, *, heartbeat: float = 15.0) -> None:
        if authorize is not None and not callable(authorize):
            raise TypeError(f"authorize must be callable with the ASGI scope, got {authorize!r}")
        if isinstance(heartbeat, bool) or not isinstance(heartbeat, (int, float)) or not 0 < heartbeat < 86_400:
            raise ValueError(f"heartbeat must be a positive number of seconds below a day, got {heartbeat!r}")
        self._feed = feed
        self._authorize = authorize
        self._heartbeat = heartbeat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._converse(scope, receive, send)
        elif scope["type"] == "lifespan":
            await live(receive, send)
        else:
            raise ValueError(f"can not answer an ASGI scope of type {scope['type']!r}")

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await answer(send, 405, "only GET is answered", [(b"allow", b"GET")])
            return
        try:
            wish = _asked(scope)
        except ValueError as error:
            await answer(send, 400, str(error))
            return
        if not await self._may(scope, wish):
            await answer(send, 403, "not allowed to listen")
            return
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-store"),
            (b"x-accel-buffering", b"no"),
        ]

        async def write(text: str) -> None:
            await send({"type": "http.response.body", "body": text.encode(), "more_body": True})

        bell = asyncio.Event()
        gone = asyncio.create_task(_hear_disconnect(receive, bell))
        subscription = self._subscribe(wish, bell)
        try:
            # Whoever sees this answer is subscribed: what is put from now on reaches it.
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            # An event without data is not shown to anybody, but its id is what a client comes back with.
            await write(f"retry: {_RECONNECT}\nid: {subscription.position}\n\n")
            await self._pass_on(subscription, bell, gone, lambda event: write(_as_sse(event)), lambda: write(":\n\n"))
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            _log.debug("a client that listened is gone")
        finally:
            subscription.close()
            await _end(gone)

    async def _converse(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()  # websocket.connect
        try:
            wish = _asked(scope)
        except ValueError as error:
            await send({"type": "websocket.close", "code": _UNREADABLE, "reason": str(error)})
            return
        if not await self._may(scope, wish):
            await send({"type": "websocket.close", "code": _REFUSED, "reason": "not allowed to listen"})
            return
        await send({"type": "websocket.accept"})

        async def say(content: dict[str, Any]) -> None:
            await send({"type": "websocket.send", "text": json.dumps(content, separators=(",", ":"))})

        bell = asyncio.Event()
        messages = _Messages(receive, bell)
        subscription = self._subscribe(wish, bell)
        try:
            while True:
                await say({"event": "ready", "event_id": subscription.position})
                await self._pass_on(
                    subscription,
                    bell,
                    messages.heard,
                    lambda event: say({"event": event.kind, **event.as_dict()}),
                    lambda: say({"event": "heartbeat"}),
                )
                subscription.close()
                if not messages.heard.done():
                    await send({"type": "websocket.close", "code": _GOING_AWAY, "reason": "the feed has ended"})
                    return
                message = messages.take()
                if message["type"] == "websocket.disconnect":
                    return
                # A client may change its mind: what it asks for replaces what it heard before, without a gap.
                wish = _told(message)
                if not await self._may(scope, wish):
                    await send({"type": "websocket.close", "code": _REFUSED, "reason": "not allowed to listen"})
                    return
                subscription = self._subscribe(
                    wish._replace(last_event_id=wish.last_event_id or subscription.position), bell
                )
        except ValueError as error:
            code = _TOO_BIG if isinstance(error, _TooBig) else _UNREADABLE
            await send({"type": "websocket.close", "code": code, "reason": str(error)[:100]})
        except OSError:
            _log.debug("a client that listened is gone")
        finally:
            subscription.close()
            await _end(messages.heard)

    def _subscribe(self, wish: Wish, bell: asyncio.Event) -> Subscription:
        ring = partial(asyncio.get_running_loop().call_soon_threadsafe, bell.set)
        bell.set()  # what it missed is there to be taken
        return self._feed.subscribe(wish.queues, ring, wish.last_event_id)

    async def _may(self, scope: Scope, wish: Wish) -> bool:
        if self._authorize is None:
            return True
        allowed = self._authorize({**scope, "localqueue.queues": wish.queues})
        return bool(await allowed if inspect.isawaitable(allowed) else allowed)

    async def _pass_on(
        self,
        subscription: Subscription,
        bell: asyncio.Event,
        heard: asyncio.Task[Any],
        tell: Callable[[Event], Awaitable[None]],
        beat: Callable[[], Awaitable[None]],
    ) -> None:
        """Until the client said something or the feed ends. A client that reads slowly holds up its own task only."""
        while True:
            try:
                await asyncio.wait_for(bell.wait(), self._heartbeat)
            except TimeoutError:
                await beat()
                continue
            bell.clear()
            for event in subscription.take():
                await tell(event)
                subscription.position = event.event_id
            if heard.done() or not subscription.is_open:
                return


class _Messages:
    """Hears one message of a WebSocket after the other, and rings for each."""

    def __init__(self, receive: Receive, bell: asyncio.Event) -> None:
        self._receive = receive
        self._bell = bell
        self.heard = self._hear()

    def take(self) -> MutableMapping[str, Any]:
        message = self.heard.result()
        self.heard = self._hear()
        return message

    def _hear(self) -> asyncio.Task[MutableMapping[str, Any]]:
        async def hear() -> MutableMapping[str, Any]:
            try:
                return await self._receive()
            finally:
                self._bell.set()

        return asyncio.create_task(hear())


class _TooBig(ValueError):
    pass


async def _hear_disconnect(receive: Receive, bell: asyncio.Event) -> None:
    try:
        while (await receive())["type"] != "http.disconnect":
            pass
    finally:
        bell.set()


async def _end(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError, OSError):
        await task


def _asked(scope: Scope) -> Wish:
    """What the address and the headers of a request ask for."""
    try:
        query = parse_qs(scope.get("query_string", b"").decode("ascii"), errors="strict", max_num_fields=10_000)
    except ValueError as error:
        raise ValueError(f"the query can not be read: {error}") from None
    last = query.get("last_event_id", [None])[-1]
    for name, value in scope.get("headers", ()):
        if name.lower() == b"last-event-id":
            last = value.decode("latin-1")
    return Wish(tuple(query.get("queue", ())), last or None)


def _told(message: MutableMapping[str, Any]) -> Wish:
    """What a WebSocket client has said it wants, as in {"queues": ["jobs"], "last_event_id": "..."}."""
    content = message.get("text") or message.get("bytes") or ""
    size = len(content.encode() if isinstance(content, str) else content)
    if size > _LONGEST_MESSAGE:
        raise _TooBig(f"a message has at most {_LONGEST_MESSAGE} bytes, got {size}")
    form = 'say {"queues": ["jobs"], "last_event_id": null}'
    try:
        wanted = json.loads(content)
    except ValueError:
        raise ValueError(f"can not be read as JSON; {form}") from None
    if not isinstance(wanted, dict) or not wanted.keys() <= {"queues", "last_event_id"}:
        raise ValueError(f"not understood; {form}")
    queues, last = wanted.get("queues") or [], wanted.get("last_event_id")
    if not isinstance(queues, list) or not all(isinstance(name, str) for name in queues):
        raise ValueError(f"queues are a list of names; {form}")
    if last is not None and not isinstance(last, str):
        raise ValueError(f"last_event_id is a text; {form}")
    return Wish(tuple(queues), last)


def _as_sse(event: Event) -> str:
    return f"id: {event.event_id}\nevent: {event.kind}\ndata: {event.as_json()}\n\n"
