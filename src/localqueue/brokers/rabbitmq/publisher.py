"""Sends over a channel whose publishes the server confirms, many at a time.

Every message is mandatory: one that no queue takes comes back, and is an error. So is one that the server refuses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from localqueue.brokers.rabbitmq.lane import Lane
from localqueue.brokers.rabbitmq.session import Reply, Session, fail, resolve
from localqueue.errors import QueueError, QueueStoreFullError, QueueStoreUnavailableError

_FRAME_ENDS = 8  # bytes of a frame around its content


class Parcel(NamedTuple):
    """One message on its way: `queue` takes it, and is made by `ensure(made_by)`."""

    queue: str
    made_by: str
    properties: Any
    body: bytes


class _Batch:
    __slots__ = ("error", "left", "reply")

    def __init__(self, reply: Reply, left: int) -> None:
        self.reply = reply
        self.left = left
        self.error: QueueError | None = None


class Publisher:
    def __init__(self, session: Session) -> None:
        import pika.frame
        import pika.spec

        self.session = session
        self._frame, self._spec = pika.frame, pika.spec
        session.await_room()
        self._lane = Lane(session)
        self._tag = 0
        self._unconfirmed: dict[int, tuple[_Batch, Parcel]] = {}
        self._returned: Counter[tuple[str, str]] = Counter()
        self._lane.call(self._turn_confirms_on)

    @property
    def ended(self) -> bool:
        return self._lane.ended is not None or self.session.lost is not None

    def publish(self, parcels: Sequence[Parcel]) -> None:
        """Returns when the server has confirmed all of them."""
        self.session.await_room()
        frames = self._frames(parcels)
        try:
            self._lane.call(lambda reply: self._publish(parcels, frames, reply))
        except QueueStoreUnavailableError:
            if self.session.alarm is not None and self.session.lost is None:
                raise self.session.blocked_error("it may take them when the alarm is over") from None
            raise

    def _frames(self, parcels: Sequence[Parcel]) -> bytes:
        """All of them as the protocol wants it, for one write: the driver would write three times a message."""
        channel, largest = self._lane.number, self._lane.largest_frame - _FRAME_ENDS
        found: list[bytes] = []
        methods: dict[str, bytes] = {}
        for queue, _, properties, body in parcels:
            method = methods.get(queue)
            if method is None:
                publish = self._spec.Basic.Publish(exchange="", routing_key=queue, mandatory=True)
                method = methods[queue] = self._frame.Method(channel, publish).marshal()
            found += (method, self._frame.Header(channel, len(body), properties).marshal())
            for start in range(0, len(body), largest):
                found.append(self._frame.Body(channel, body[start : start + largest]).marshal())
        return b"".join(found)

    # for the session's thread

    def _turn_confirms_on(self, reply: Reply) -> None:
        self._lane.channel.add_on_return_callback(self._on_return)
        self._lane.channel.confirm_delivery(self._on_confirm, callback=lambda _: resolve(reply))

    def _publish(self, parcels: Sequence[Parcel], frames: bytes, reply: Reply) -> None:
        batch = _Batch(reply, len(parcels))
        self._unconfirmed.update((tag, (batch, parcel)) for tag, parcel in enumerate(parcels, self._tag + 1))
        self._tag += len(parcels)
        self.session.connection._output_marshaled_frames([frames])

    def _on_return(self, _: Any, method: Any, properties: Any, __: bytes) -> None:
        self._returned[method.routing_key, properties.message_id] += 1

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        last, refused = method.delivery_tag, method.NAME == "Basic.Nack"
        if not method.multiple:
            self._confirm(last, refused)
            return
        for tag in list(self._unconfirmed):
            if tag > last:
                break
            self._confirm(tag, refused)

    def _confirm(self, tag: int, refused: bool) -> None:
        found = self._unconfirmed.pop(tag, None)
        if found is None:
            return
        batch, parcel = found
        if refused:
            batch.error = self._refusal(parcel)
        elif self._returned and self._came_back(parcel):
            batch.error = self.session.tongue.missing(parcel.queue, parcel.made_by)
        batch.left -= 1
        if batch.left == 0:
            if batch.error is None:
                resolve(batch.reply)
            else:
                fail(batch.reply, batch.error)

    def _came_back(self, parcel: Parcel) -> bool:
        key = (parcel.queue, parcel.properties.message_id)
        if not self._returned[key]:
            del self._returned[key]
            return False
        self._returned[key] -= 1
        if not self._returned[key]:
            del self._returned[key]
        return True

    def _refusal(self, parcel: Parcel) -> QueueStoreFullError:
        return QueueStoreFullError(
            f"RabbitMQ at {self.session.tongue.shown} did not take a message for queue {parcel.queue!r}: "
            "the queue is full, or not available",
            path=self.session.tongue.shown,
        )
