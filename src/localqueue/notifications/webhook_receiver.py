"""The other side of a webhook: it checks what comes in and wakes those who wait."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

from localqueue.message import QueueMessage
from localqueue.notifications.asgi import Receive, Scope, Send, answer, live
from localqueue.notifications.port import CATCH_UP, CrossProcessNotification
from localqueue.notifications.signature import HEADER, key_of, verify
from localqueue.policies import NotificationPolicy

_ID = re.compile(r"([0-9a-f]{8,64})-([0-9]{1,18})")
_SENDERS = 10_000  # how many lives of senders are remembered

_REASONS = {
    204: "",
    400: "not an event",
    401: "the signature does not fit, or is too old",
    409: "this event has come before",
    413: "too long",
}


class WebhookReceiver(CrossProcessNotification):
    """What a consumer waits at when its producers have a `WebhookNotification`, on whichever machine.

    Mount `app`, an ASGI application, or call `accept` from a view of any other framework. An event is taken when it was
    signed with the secret at most `tolerance` seconds ago and has not come before: a sender numbers its events and
    sends them in order. Several secrets may be given while one replaces another; None takes unsigned events.

    `pass_on` is a policy that is told of everything that was taken: with an `SSENotification` this is a hub, to which
    producers post and at which consumers listen.
    """

    kind: ClassVar[str] = "webhook-receiver"
    scope: ClassVar[Literal["host", "network"]] = "network"

    def __init__(
        self,
        queue: str | None = None,
        *,
        secret: str | bytes | Sequence[str | bytes] | None,
        tolerance: float = 300.0,
        max_body: int = 65_536,
        catch_up: float = CATCH_UP,
        pass_on: NotificationPolicy | None = None,
    ) -> None:
        super().__init__(queue, catch_up=catch_up)
        if not isinstance(tolerance, (int, float)) or isinstance(tolerance, bool) or not 0 < tolerance < 86_400:
            raise ValueError(f"tolerance must be a positive number of seconds below a day, got {tolerance!r}")
        if not isinstance(max_body, int) or isinstance(max_body, bool) or max_body < 1:
            raise ValueError(f"max_body must be a number of bytes, at least 1, got {max_body!r}")
        given = (secret,) if secret is None or isinstance(secret, (str, bytes)) else tuple(secret)
        if not given:
            raise ValueError("secret cannot be empty; None takes unsigned events")
        self._keys = [key_of(one) for one in given if one is not None]
        self._tolerance = tolerance
        self._max_body = max_body
        self._pass_on = pass_on
        self._seen: OrderedDict[str, int] = OrderedDict()
        self._noting = threading.Lock()
        self.accepted = self.refused = 0

    def accept(self, signature: str | None, body: bytes) -> int:
        """Take an event, with its header `X-Localqueue-Signature`, and wake those who wait. Returns the HTTP status to
        answer with: 204, or why not: 400, 401 (signature), 409 (it came before) or 413 (too long)."""
        status = self._judge(signature, body)
        with self._noting:
            if status == 204:
                self.accepted += 1
            else:
                self.refused += 1
        return status

    def _judge(self, signature: str | None, body: bytes) -> int:
        if len(body) > self._max_body:
            return 413
        if self._keys and not any(verify(key, signature, body, self._tolerance) for key in self._keys):
            return 401
        try:
            event = json.loads(body)
            queue, found, at = event["queue"], _ID.fullmatch(event["event_id"]), float(event.get("at", 0.0))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return 400
        if found is None or not (queue is None or isinstance(queue, str)):
            return 400
        if not self._is_new(found[1], int(found[2])):
            return 409
        self.tell(queue)
        if self._pass_on is not None:
            message_id = str(event.get("message_id"))
            self._pass_on.notify(
                None if queue is None else QueueMessage(message_id, None, queue, created_at=at, available_at=at)
            )
        return 204

    def _is_new(self, life: str, number: int) -> bool:
        with self._noting:
            if number <= self._seen.get(life, 0):
                return False
            self._seen[life] = number
            self._seen.move_to_end(life)
            if len(self._seen) > _SENDERS:
                self._seen.popitem(last=False)
            return True

    @property
    def app(self) -> ReceiverApp:
        """The receiver as an ASGI application, to be mounted under any path."""
        return ReceiverApp(self.accept, self._max_body)

    # what the port asks for

    def send(self, queue: str | None, delay: float) -> None:
        """It only receives."""

    def listen(self, queues: frozenset[str | None]) -> None:
        """The server that it is mounted in listens."""

    @property
    def live(self) -> bool:
        """Whether anything has come yet: before that nobody knows if somebody sends."""
        return self.accepted > 0

    def details(self) -> dict[str, Any]:
        return {"signed": bool(self._keys)}

    def abandon(self) -> None:
        self._noting = threading.Lock()


class ReceiverApp:
    """Has events accepted that are posted to it."""

    def __init__(self, accept: Callable[[str | None, bytes], int], max_body: int) -> None:
        self._accept = accept
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"can not answer an ASGI scope of type {scope['type']!r}")
        elif scope["method"] != "POST":
            await answer(send, 405, "only POST is answered", [(b"allow", b"POST")])
        else:
            status = self._accept(_signature(scope), await _body(receive, self._max_body))
            await answer(send, status, _REASONS[status])


def _signature(scope: Scope) -> str | None:
    name = HEADER.lower().encode()
    found = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return found[0] if len(found) == 1 else None


async def _body(receive: Receive, limit: int) -> bytes:
    """The body of a request; of one that is too long no more than shows this."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > limit or not message.get("more_body", False):
            return bytes(body)
