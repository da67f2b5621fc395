"""What the adapters that wake over a database server have in common.

All queues share one channel: a process that listens has one subscription, however many thousands of queues it waits
for, and takes from what it hears what concerns it. What is said there is a few words: who says it, in how many seconds
to look if not at once, and the queues, each written as in a URL. Without a queue it is about all of them, which is also
what is said when the names would not fit. The sender tells those of its own process by itself, so it passes over what
it hears of itself.
"""

from __future__ import annotations

import math
import re
import secrets
import threading
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import quote, unquote

from localqueue.errors import NotificationFailed, QueueStoreError
from localqueue.notifications.port import CrossProcessNotification
from localqueue.stores.address import parse
from localqueue.stores.listener import Listener

CHANNEL = "localqueue"

#: Bytes of one notification, as PostgreSQL allows them: what is said is ASCII, so a byte is a character.
LONGEST = 7999

_BEGINS_WITHIN = 2.0  # seconds; who attaches while the server is away looks often instead
_DELAY = re.compile(r"\+([0-9]{1,9}\.[0-9]{3})")

S = TypeVar("S")


class ServerNotification(CrossProcessNotification, Generic[S]):
    """A subclass says how to open what it sends with, how to say some words on the channel, and which listener of this
    process hears them."""

    scope = "network"
    schemes: ClassVar[tuple[str, ...]]

    def __init__(self, url: str, queue: str | None, *, channel: str, timeout: float, catch_up: float) -> None:
        super().__init__(queue, catch_up=catch_up)
        if not isinstance(url, str):
            raise TypeError(f"url must be a text such as '{self.schemes[0]}://host', got {type(url).__name__}")
        address = parse(url)
        if url.partition(":")[0].lower() not in self.schemes:
            raise ValueError(f"{type(self).__name__} takes a {self.schemes[0]}:// address, got {address.shown!r}")
        if not isinstance(channel, str) or not channel:
            raise ValueError(f"channel must be a text that is not empty, got {channel!r}")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < math.inf:
            raise ValueError(f"timeout must be a positive number of seconds, got {timeout!r}")
        self.channel = self.name_channel(channel)
        self._url = url
        self._address = address
        self._timeout = float(timeout)
        self._listener: Listener | None = None
        self._hearer = _Hearer(self)
        self._sender: S | None = None
        self._begin()

    def _begin(self) -> None:
        self.mark = f"@{secrets.token_hex(6)}"
        self._opening = threading.Lock()

    # what a kind of server fills in

    @staticmethod
    def name_channel(channel: str) -> str:
        """What the server calls the channel; sender and listener have it from here."""
        return channel

    @abstractmethod
    def open_sender(self) -> S:
        """What `say` uses. Need not connect."""

    @abstractmethod
    def close_sender(self, sender: S) -> None: ...

    @abstractmethod
    def abandon_sender(self, sender: S) -> None:
        """In the child of a fork: let go of it without a word to the server."""

    @abstractmethod
    def say(self, sender: S, words: Sequence[str]) -> None:
        """Have the listeners of the channel hear it; a connection that was lost meanwhile is made again, once."""

    @abstractmethod
    def join(self, sender: S) -> Listener:
        """The listener that this process shares."""

    # the port

    @property
    def live(self) -> bool:
        listener = self._listener
        return listener is not None and listener.live

    def send(self, queue: str | None, delay: float) -> None:
        self.send_many((queue,), delay)

    def send_many(self, queues: Sequence[str | None], delay: float) -> None:
        try:
            self.say(self._opened(), self.words_for(queues, delay))
        except QueueStoreError as error:
            said = str(error).replace("queue store", "server", 1)  # the queues may be elsewhere
            raise NotificationFailed(
                f"consumers of other processes could not be woken: {said}. What was put is stored, do not put it "
                "again: those who wait find it by themselves"
            ) from error

    def words_for(self, queues: Sequence[str | None], delay: float) -> list[str]:
        """What is said of these queues, in words without spaces and commas."""
        head = [self.mark]
        if delay > 0:
            head.append(f"+{math.ceil(delay * 1000) / 1000:.3f}")  # never early
        names = [quote(queue, safe="") for queue in queues if queue is not None]
        if len(names) < len(queues) or sum(map(len, head + names)) + len(head + names) > LONGEST:
            return head
        return head + names

    def heard(self, words: Iterable[str]) -> None:
        """Tell those who listen here of what was said on the channel, perhaps by another program."""
        delay, queues = 0.0, []
        for word in words:
            if word == self.mark:
                return
            if found := _DELAY.fullmatch(word):
                delay = float(found[1])
            elif not word.startswith("@"):
                queues.append(unquote(word))
        for queue in queues or (None,):
            self.tell(queue, delay)

    def listen(self, queues: frozenset[str | None]) -> None:
        listener = self._listener
        if queues and listener is None:
            listener = self.join(self._opened())
            self._hearer = _Hearer(self)
            self._listener = listener
            listener.add(self.channel, self._hearer, patience=_BEGINS_WITHIN)
            if not listener.live:
                self._hearer.is_new = False
        elif not queues and listener is not None:
            self._listener = None
            listener.remove(self.channel, self._hearer)
            listener.release()

    def abandon(self) -> None:
        sender, self._sender = self._sender, None
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.abandon()
        if sender is not None:
            self.abandon_sender(sender)
        self._begin()

    def close(self) -> None:
        """Stop listening, whoever is attached, and close the connections. What is used again connects again."""
        super().close()
        with self._opening:
            sender, self._sender = self._sender, None
        if sender is not None:
            self.close_sender(sender)

    def details(self) -> dict[str, Any]:
        return {"url": self._address.shown, "channel": self.channel}

    def _opened(self) -> S:
        if self._sender is None:
            with self._opening:
                if self._sender is None:
                    self._sender = self.open_sender()
                return self._sender
        return self._sender

    def __repr__(self) -> str:
        queue = "" if self.queue is None else f", {self.queue!r}"
        return f"{type(self).__name__}({self._address.shown!r}{queue})"


class _Hearer:
    """What a listener tells. It has everybody look when it begins to hear; who has just attached looks anyway."""

    def __init__(self, notification: ServerNotification[Any]) -> None:
        self._notification = notification
        self.is_new = True

    def told(self, queues: Iterable[str]) -> None:
        self._notification.heard(queues)

    def stir(self) -> None:
        if self.is_new:
            self.is_new = False
        else:
            self._notification.tell(None)
