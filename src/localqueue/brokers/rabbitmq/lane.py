"""One channel of a session: what it has delivered, and what of that is settled.

A delivery is held from its arrival until somebody settles it or the channel ends. `claim` decides who settles it: once,
and never after the channel has ended, for then the server has given the message to another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from localqueue.brokers.rabbitmq.session import Reply, Session, Step, fail, resolve
from localqueue.errors import QueueError, QueueStoreUnavailableError


class Arrival(NamedTuple):
    """A message as the driver gave it."""

    tag: int
    redelivered: bool
    properties: Any
    body: bytes


class Lane:
    """Opens a channel. `on_end` is told, in the session's thread, why no more will come."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.ended: QueueError | None = None
        self.on_end: Callable[[QueueError], None] = lambda _: None
        self._channel: Any = None
        self._held: dict[int, bool] = {}
        self._unsettled: dict[int, bool] = {}  # as the server knows it; for the session's thread only
        self._acks: deque[int] = deque()
        self._flushing = False
        self._retired = False
        self._waiting: set[Reply] = set()
        self.call(self._open)

    def _open(self, reply: Reply) -> None:
        def opened(channel: Any) -> None:
            self._channel = channel
            channel.add_on_close_callback(self._on_close)
            resolve(reply)

        self.session.connection.channel(on_open_callback=opened)

    # for any thread

    def call(self, step: Step, timeout: float | None = None) -> Any:
        """As of the session; also answered, by an error, when this channel ends."""

        def watched(reply: Reply) -> None:
            if self.ended is not None:
                fail(reply, self.ended)
                return
            self._waiting.add(reply)
            reply.add_done_callback(self._waiting.discard)
            step(reply)

        try:
            return self.session.call(watched, timeout)
        except QueueStoreUnavailableError:
            self.close()
            raise

    def ask(self, method: str, **arguments: Any) -> Any:
        """The answer of the server to a method of the channel."""
        answer = self.call(
            lambda reply: getattr(self._channel, method)(callback=lambda frame: resolve(reply, frame), **arguments)
        )
        return answer.method

    def claim(self, tag: int) -> bool:
        """Whether the delivery is the caller's to settle now; nobody else gets it."""
        return self.session.lost is None and self._held.pop(tag, False)

    def unclaim(self, tag: int) -> None:
        if self.ended is None:
            self._held[tag] = True

    def holds(self, tag: int) -> bool:
        return self.session.lost is None and tag in self._held

    def ack(self, tags: Sequence[int]) -> None:
        """Tell the server that what was claimed is done. Many small calls are told together."""
        self._acks.extend(tags)
        if not self._flushing:
            self._flushing = True
            self.session.post(self._flush)

    def give_back(self, tags: Sequence[int], *, failed: bool = True) -> None:
        """Have the server deliver again what was claimed. What never reached a handler has not `failed`."""

        def step() -> None:
            if self.ended is None:
                for tag in tags:
                    self._unsettled.pop(tag, None)
                    if failed:
                        self._channel.basic_reject(tag, requeue=True)
                    else:
                        self._channel.basic_nack(tag, requeue=True)
                self._close_if_done()

        self.session.post(step)

    def retire(self) -> None:
        """Close the channel as soon as all that it holds is settled."""

        def step() -> None:
            self._retired = True
            self._close_if_done()

        with suppress(QueueError):
            self.session.post(step)

    def close(self) -> None:
        """Close the channel; the server delivers again what is not settled."""
        if self.ended is None:
            self.ended = self.session.tongue.unavailable("its channel was closed")
        self._held.clear()
        with suppress(QueueError):
            self.session.post(self._close)

    @property
    def number(self) -> int:
        return int(self._channel.channel_number)

    @property
    def largest_frame(self) -> int:
        return int(self.session.connection.params.frame_max)

    # for the session's thread

    @property
    def channel(self) -> Any:
        return self._channel

    def end_consumer(self, consumer: str, then: Callable[[], None]) -> None:
        """Have the server send no more to a consumer, and go on when all it has sent has arrived.

        The driver's own way would give back what arrives meanwhile, as if it had failed. What the server sent before it
        heard of the end comes before the answer to another question; only then the driver forgets the consumer.
        """
        from pika.spec import Basic

        def ended(_: Any) -> None:
            if self._channel.is_open:
                self._channel.basic_cancel(consumer, callback=lambda _: None)
            then()

        self._channel._send_method(Basic.Cancel(consumer_tag=consumer, nowait=True))
        self._channel.basic_qos(prefetch_count=1, callback=ended)

    def arrived(self, method: Any, properties: Any, body: bytes) -> Arrival:
        tag = method.delivery_tag
        self._held[tag] = self._unsettled[tag] = True
        return Arrival(tag, method.redelivered, properties, body)

    def _flush(self) -> None:
        self._flushing = False
        acks: dict[int, bool] = {}
        while self._acks:
            acks[self._acks.popleft()] = True
        if self.ended is not None:
            return
        if len(acks) > 1:
            self._ack_together(acks)
        for tag in acks:
            self._unsettled.pop(tag, None)
            self._channel.basic_ack(tag)
        self._close_if_done()

    def _ack_together(self, acks: dict[int, bool]) -> None:
        """Ack the oldest deliveries by one word, as far as all of them are to be acked."""
        done = []
        for tag in self._unsettled:
            if tag not in acks:
                break
            done.append(tag)
        if len(done) > 1:
            self._channel.basic_ack(done[-1], multiple=True)
            for tag in done:
                del self._unsettled[tag], acks[tag]

    def _close_if_done(self) -> None:
        if self._retired and not self._unsettled:
            self._close()

    def _close(self) -> None:
        if self._channel is not None and self._channel.is_open:
            self._channel.close()

    def _on_close(self, _: Any, reason: BaseException) -> None:
        error = self.session.tongue.translate(reason)
        self.ended = error
        self._held.clear()
        self._unsettled.clear()
        for reply in list(self._waiting):
            fail(reply, error)
        self.on_end(error)
