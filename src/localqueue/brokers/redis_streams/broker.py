"""`RedisStreamsBroker`: the broker port on streams of a Redis server."""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from localqueue.brokers import envelope
from localqueue.brokers.address import number, split
from localqueue.brokers.base import BrokerBase, one_queue
from localqueue.brokers.capabilities import capabilities_of
from localqueue.brokers.port import NO_HEADERS, BrokerStats, Delivery, Health, Outgoing
from localqueue.brokers.redis_streams import entries
from localqueue.brokers.redis_streams.functions import FUNCTIONS, StreamConnections
from localqueue.brokers.redis_streams.subscription import StreamSubscription
from localqueue.brokers.redis_streams.wait import LONGEST, StreamWait
from localqueue.errors import QueueError, QueueStoreMissingError
from localqueue.stores import fork

_MOST_AT_ONCE = 1000


class Taken(NamedTuple):
    """What a look at a queue found; if nothing, after which entries to wait, and for how many seconds at most."""

    deliveries: list[Delivery]
    after: tuple[bytes, bytes] | None = None
    look_again: float = math.inf


class RedisStreamsBroker(BrokerBase):
    """Queues that are streams of a Redis server, read by one consumer group.

    `timeout` is how long to wait for an answer. Safe to share between threads, and to carry over a fork.
    """

    def __init__(self, url: str, *, timeout: float = 15.0) -> None:
        address = split(url, group="localqueue", claim_after="60")
        super().__init__(capabilities_of("redis-streams"), address.shown)
        self._group = address.options["group"].encode()
        self._claim_after = b"%d" % (1000 * number(address, "claim_after", least=0.001))
        self._server = StreamConnections(address.url.replace("+stream:", ":", 1), address.shown, timeout=timeout)
        self._start()
        fork.track(self)

    def _start(self) -> None:
        self._consumer = f"localqueue-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}".encode()
        self._lock = threading.Lock()
        self._used: set[str] = set()
        self._waiting: set[StreamWait] = set()
        self._idle: dict[str, StreamWait] = {}

    def ensure(self, queue: str) -> None:
        self._call("make", queue, self._group, again=True)

    def send(self, queue: str, message: Outgoing) -> str:
        if message.delay:
            return self.send_batch(queue, (message,))[0]
        self.require_open()
        self.check_send(queue, (message,))
        fields = entries.fields_of(message, message.id)
        entry = self._server.ask(b"XADD", _key(queue), b"NOMKSTREAM", b"*", *fields)
        if entry is None:
            self._raise_missing(queue)
        return str(entry.decode()) if message.id is None else message.id

    def send_batch(self, queue: str, messages: Sequence[Outgoing]) -> list[str]:
        self.require_open()
        self.check_send(queue, messages)
        if not messages:
            return []
        call, given = list[bytes](), list[str | None]()
        for one in messages:
            message_id = secrets.token_hex(16) if one.delay and one.id is None else one.id
            fields = entries.fields_of(one, message_id)
            call += (b"%d" % math.ceil(one.delay * 1000), b"%d" % len(fields), *fields)
            given.append(message_id)
        sent = self._call("send", queue, *call)
        return [entry.decode() if own is None else own for entry, own in zip(sent, given, strict=True)]

    def receive(self, queue: str, limit: int = 1, *, wait: float = 0.0, lease: float = 30.0) -> list[Delivery]:
        self.require_open()
        self.check_receive(limit, wait, lease)
        deadline = time.monotonic() + wait
        taken = self.take(queue, limit, lease)
        if taken.deliveries or wait == 0:
            return taken.deliveries
        waiting = self.open_wait(queue)
        try:
            while not self._closed.is_set() and (left := deadline - time.monotonic()) > 0:
                waiting.until(taken.after, min(left, taken.look_again, LONGEST))
                if self._closed.is_set():
                    break
                taken = self.take(queue, limit, lease)
                if taken.deliveries:
                    return taken.deliveries
        finally:
            self.end_wait(queue, waiting)
        return []

    def take(self, queue: str, limit: int, lease: float, holder: StreamSubscription | None = None) -> Taken:
        """What can be had at once."""
        self._used.add(queue)
        arguments = (b"%d" % min(limit, _MOST_AT_ONCE), b"%d" % math.ceil(lease * 1000), self._claim_after)
        until, claimed, fresh, *rest = self._call("receive", queue, self._group, self._consumer, *arguments)
        end = until / 1000
        found = [entries.delivered(queue, entry, fields, count, end, holder) for entry, fields, count in claimed]
        found += [entries.delivered(queue, entry, fields, 1, end, holder) for entry, fields in fresh]
        if not rest:
            return Taken(found)
        due, last, signal = rest
        return Taken(found, (last, signal), math.inf if due < 0 else (due + 1) / 1000)

    def ack(self, deliveries: Sequence[Delivery]) -> list[bool]:
        self.require_open()
        return self._settle(deliveries, "ack", "drop_dead")

    def nack(
        self,
        deliveries: Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        self.require_open()
        if dead:
            return self._settle(deliveries, "bury", None, envelope.error_header(error).get(envelope.ERROR, "").encode())
        self.check_nack(delay)
        return self._settle(deliveries, "nack", None, b"%d" % math.ceil(delay * 1000), b"0")

    def give_back(self, deliveries: Sequence[Delivery]) -> None:
        """What nobody has seen: it was no delivery. If the server can not be told, its lease runs out."""
        with suppress(QueueError):
            self._settle(deliveries, "nack", None, b"0", b"1")

    def _settle(self, deliveries: Sequence[Delivery], function: str, of_dead: str | None, *how: bytes) -> list[bool]:
        done = [False] * len(deliveries)
        for queue, positions in one_queue(deliveries).items():
            held = [position for position in positions if not deliveries[position].receipt.dead]
            if held:
                names = [deliveries[position].receipt.name for position in held]
                for position, answer in zip(held, self._call(function, queue, self._group, *how, *names), strict=True):
                    done[position] = answer == 1
            dead = [position for position in positions if deliveries[position].receipt.dead]
            if dead:
                names = [deliveries[position].receipt.name for position in dead]
                answers = [1] * len(dead) if of_dead is None else self._call(of_dead, queue, *names)
                for position, answer in zip(dead, answers, strict=True):
                    done[position] = answer == 1
        for one in deliveries:
            if one.receipt.holder is not None:
                one.receipt.holder.settled(one.receipt.name)
        return done

    def extend(self, deliveries: Sequence[Delivery], seconds: float) -> list[float | None]:
        self.require_open()
        until: list[float | None] = [None] * len(deliveries)
        for queue, positions in one_queue(deliveries).items():
            names = [deliveries[position].receipt.name for position in positions]
            held = self._call("extend", queue, self._group, self._consumer, b"%d" % math.ceil(seconds * 1000), *names)
            for position, end in zip(positions, held, strict=True):
                until[position] = None if end is None else end / 1000
        for one, end in zip(deliveries, until, strict=True):
            if one.receipt.holder is not None:
                if end is None:
                    one.receipt.holder.settled(one.receipt.name)
                else:
                    one.receipt.holder.extended(one.receipt.name, seconds)
        return until

    def written(self, delivery: Delivery) -> str:
        name: bytes = delivery.receipt.name
        return name.decode()

    def resumed(self, queue: str, message_id: str, receipt: str) -> Delivery:
        return Delivery(queue, message_id, b"", NO_HEADERS, 1, entries.Receipt(receipt.encode()))

    def dead_letters(self, queue: str, limit: int = 100) -> list[Delivery]:
        found = self._call("dead", queue, b"%d" % limit, again=True)
        return [entries.dead_letter(queue, entry, fields) for entry, fields in found]

    def stats(self, queue: str) -> BrokerStats:
        return BrokerStats(*self._call("stats", queue, self._group, again=True))

    def purge(self, queue: str) -> int | None:
        return int(self._call("purge", queue, self._group))

    def delete(self, queue: str) -> None:
        self._call("delete", queue, again=True)

    def health(self) -> Health:
        self.require_open()
        return self.timed(lambda: self._server.ask(b"PING", again=True))

    def subscribe(self, queue: str, *, prefetch: int = 100, lease: float = 30.0) -> StreamSubscription:
        self.require_open()
        self.check_receive(prefetch, 0.0, lease)
        self.stats(queue)
        return StreamSubscription(self, queue, prefetch=prefetch, lease=lease)

    def open_wait(self, queue: str) -> StreamWait:
        """A wait for entries of a queue, which `close` ends."""
        with self._lock:
            waiting = self._idle.pop(queue, None)
            if waiting is None:
                key = _key(queue)
                waiting = StreamWait(self._server.new, self.url, (key, b"{%b}:signal" % key))
            self._waiting.add(waiting)
            return waiting

    def end_wait(self, queue: str, waiting: StreamWait) -> None:
        with self._lock:
            self._waiting.discard(waiting)
            if queue not in self._idle and not self._closed.is_set():
                self._idle[queue] = waiting
                return
        waiting.close()

    def _call(self, function: str, queue: str, *arguments: bytes, again: bool = False) -> Any:
        answer = self._server.ask(b"FCALL", FUNCTIONS[function], b"1", _key(queue), *arguments, again=again)
        if answer is None:
            self._raise_missing(queue)
        return answer

    def _raise_missing(self, queue: str) -> NoReturn:
        raise QueueStoreMissingError(
            f"there is no queue {queue!r} with the group {self._group.decode()!r} at {self.url}: `ensure` makes it",
            path=self.url,
        )

    def close(self) -> None:
        if self._closed.is_set():
            return
        super().close()
        with self._lock:
            waiting, idle, self._idle = list(self._waiting), list(self._idle.values()), {}
        for one in waiting:
            one.wake()
        for one in idle:
            one.close()
        with suppress(QueueError):  # a consumer that can not say so is forgotten by the others
            for queue in self._used:
                self._call("leave", queue, self._group, self._consumer)
        self._server.close()
        fork.forget(self)

    def hold_for_fork(self) -> None:
        self._lock.acquire()

    def go_on_after_fork(self) -> None:
        self._lock.release()

    def close_in_child(self) -> None:
        for one in (*self._waiting, *self._idle.values()):
            one.close()
        self._server.abandon()

    def reopen_in_child(self) -> None:
        self._start()


def _key(queue: str) -> bytes:
    if not queue or "{" in queue or "}" in queue:
        raise ValueError(f"a queue of Redis Streams has a name without braces, not {queue!r}")
    return queue.encode()
