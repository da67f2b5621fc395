"""The connections of a broker and the channels on them: opened when they are needed, and again when they were lost.

One connection sends and one does the rest, whatever the number of queues: a server that runs out of disk or memory
stops reading from a connection that sends, and what was received over it could not be acked any more.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from localqueue.brokers.rabbitmq.lane import Lane
from localqueue.brokers.rabbitmq.publisher import Publisher
from localqueue.brokers.rabbitmq.receiver import Receiver
from localqueue.brokers.rabbitmq.session import Session
from localqueue.brokers.rabbitmq.settings import Settings
from localqueue.brokers.rabbitmq.subscription import RabbitMQSubscription
from localqueue.errors import QueueStoreMissingError, QueueStoreUnavailableError

_MOST_IDLE = 8  # channels of a queue that are kept for the next to receive


class Connections:
    """Of one broker, which `require_open` raises for when it is closed."""

    def __init__(self, settings: Settings, require_open: Callable[[], None]) -> None:
        self._settings = settings
        self._require_open = require_open
        self._reset()
        _all.add(self)

    def _reset(self) -> None:
        self._opening, self._publishing = threading.Lock(), threading.Lock()
        self._asking, self._sharing = threading.Lock(), threading.Lock()
        self._sender: Session | None = None
        self._taker: Session | None = None
        self._publisher: Publisher | None = None
        self._lane: Lane | None = None  # for questions about queues
        self._idle: dict[str, list[Receiver]] = {}
        self._busy: set[Receiver] = set()
        self._subscriptions: weakref.WeakSet[RabbitMQSubscription] = weakref.WeakSet()

    def publisher(self) -> Publisher:
        self._require_open()
        with self._publishing:
            if self._sender is None or self._sender.lost is not None:
                self._sender = Session(self._settings, "sender")
            if self._publisher is None or self._publisher.ended:
                self._publisher = Publisher(self._sender)
            return self._publisher

    def ask(self, method: str, *, made_by: str | None = None, **arguments: Any) -> Any:
        """The answer to a question about queues. One at a time: an error ends the channel it was asked on."""
        with self._asking:
            session = self._receiving()
            if self._lane is None or self._lane.ended is not None or self._lane.session is not session:
                self._lane = Lane(session)
            try:
                return self._lane.ask(method, **arguments)
            except QueueStoreMissingError:
                if made_by is None:
                    raise
                raise session.tongue.missing(arguments["queue"], made_by) from None

    def subscribe(self, queue: str, prefetch: int) -> RabbitMQSubscription:
        session = self._receiving()
        try:
            found = RabbitMQSubscription(session, queue, prefetch)
        except QueueStoreMissingError:
            raise session.tongue.missing(queue, queue) from None
        self._subscriptions.add(found)
        return found

    @contextmanager
    def receiver(self, source: str, made_by: str) -> Iterator[Receiver]:
        """A channel to receive over, of nobody else while it is used; it goes on to hold what it has delivered."""
        session = self._receiving()
        receiver = self._take(source) or Receiver(session, source)
        self._busy.add(receiver)
        try:
            yield receiver
        except QueueStoreMissingError:
            raise session.tongue.missing(source, made_by) from None
        except QueueStoreUnavailableError:
            self._require_open()  # who closes it ends the connection too
            raise
        finally:
            self._busy.discard(receiver)
            self._give(receiver)

    def _take(self, source: str) -> Receiver | None:
        with self._sharing:
            idle = self._idle.setdefault(source, [])
            idle[:] = [one for one in idle if not one.ended]
            return idle.pop() if idle else None

    def _give(self, receiver: Receiver) -> None:
        with self._sharing:
            idle = self._idle.setdefault(receiver.source, [])
            if len(idle) < _MOST_IDLE and not receiver.ended:
                idle.append(receiver)
                return
        receiver.lane.retire()

    def _receiving(self) -> Session:
        self._require_open()
        with self._opening:
            if self._taker is None or self._taker.lost is not None:
                self._taker = Session(self._settings, "receiver")
            return self._taker

    def close(self) -> None:
        """End who waits, and the connections after what was handed to them."""
        for receiver in list(self._busy):
            receiver.interrupt()
        for subscription in list(self._subscriptions):
            subscription.wake()
        with self._opening, self._publishing:
            sessions = [one for one in (self._sender, self._taker) if one is not None]
            self._sender = self._taker = None
        for session in sessions:
            session.close()

    def abandon(self) -> None:
        """In the child of a fork, which has neither the threads nor a right to the connections."""
        for session in (self._sender, self._taker):
            if session is not None:
                session.abandon()
                _of_the_parent.append(session)
        self._reset()


_all: weakref.WeakSet[Connections] = weakref.WeakSet()
_of_the_parent: list[Session] = []  # kept, because to let go of a connection could mean to say goodbye on it


def _in_child() -> None:
    for connections in list(_all):
        connections.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
