"""A sender and a handler of one queue, in threads of their own, and the history of what they saw."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Self

from localqueue.brokers import HybridConsumer, Outgoing
from localqueue.brokers.course import Counters
from localqueue.brokers.port import Broker, Delivery
from localqueue.errors import QueueStoreFullError, QueueStoreUnavailableError
from tests.brokers.history import Event, faults

PATIENCE = 60.0  # seconds until something that should happen is called lost; a server may have to start meanwhile

_BATCH, _PREFETCH, _LEASE, _INTERVAL = 4, 8, 2.0, 0.1
_RETRY = 0.02
_MOST_AHEAD = 40  # messages that the sender may be ahead of the handler


class Traffic:
    """Opens a broker for each of the two, as two processes would. Nothing is sent before `send_to`."""

    def __init__(self, open_broker: Callable[[], Broker], queue: str) -> None:
        self.queue = queue
        self.history: list[Event] = []
        self.failures: list[Exception] = []  # of sends: visible, and of unknown outcome
        self.confirmed: set[int] = set()
        self.handled: set[int] = set()
        self.acked: set[int] = set()
        self.settled: set[int] = set()  # as far as anybody knows: acked, or with an ack that nobody answered
        self.goal = self.sent = 0  # how many are to be confirmed, and were sent
        self._sender = open_broker()
        self._ensure()
        self._receiver = open_broker()
        self._consumer = HybridConsumer(
            self._receiver, queue, batch=_BATCH, prefetch=_PREFETCH, lease=_LEASE, fallback_interval=_INTERVAL
        )
        self._changed = threading.Condition()
        self._errors: list[BaseException] = []
        self._ended = threading.Event()
        self._may_handle = threading.Event()
        self._may_handle.set()
        self._streams = self._looks = self._is_empty = False
        self._threads = [
            threading.Thread(target=self._guard, args=(work,), daemon=True) for work in (self._send, self._handle)
        ]

    def _ensure(self) -> None:
        """Make the queue, however often a busy server lets a broker wait that gives up soon."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._sender.ensure(self.queue)
            except QueueStoreUnavailableError:
                if time.monotonic() > deadline:
                    raise

    # what a test says

    @property
    def counters(self) -> Counters:
        return self._consumer.counters

    @property
    def can(self) -> Any:
        return self._receiver.capabilities

    def send_to(self, goal: int) -> None:
        """Have the sender go on until so many are confirmed in all."""
        with self._changed:
            self.goal, self._streams = goal, False
            self._changed.notify_all()

    def stream(self) -> None:
        """Have the sender go on, a little ahead of the handler, until `send_to`."""
        with self._changed:
            self._streams = True
            self._changed.notify_all()

    def wait_for(self, reached: Callable[[], object]) -> None:
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._errors or reached(), PATIENCE)
        if self._errors:
            raise self._errors[0]
        assert in_time, f"not within {PATIENCE:g} seconds; {self._figures()}"

    def wait_until_degraded(self) -> None:
        self.wait_for(lambda: self.counters.state == "degraded")

    def wait_until_recovered(self) -> None:
        self.wait_for(lambda: self.counters.state == self.usual)

    @property
    def usual(self) -> str:
        return "poll" if self.can.push == "none" else "push"

    def hold(self) -> None:
        """Have the handler take nothing, until `go_on`."""
        self._may_handle.clear()

    def go_on(self) -> None:
        self._may_handle.set()

    def require_push(self, count: int = 30) -> None:
        """Send messages one by one until one of them comes by push."""
        before = self.counters.pushed
        for _ in range(count):
            self.send_to(len(self.confirmed) + 1)
            self.wait_for(lambda: len(self.confirmed) >= self.goal and self.confirmed <= self.settled)
            if self.counters.pushed > before:
                return
        raise AssertionError(f"nothing came by push any more; {self._figures()}")

    def finish(self) -> None:
        """Wait until all is handled, settled and gone from the queue, and check the history."""
        self.wait_for(lambda: len(self.confirmed) >= self.goal)
        self.wait_for(lambda: self.confirmed <= self.settled)
        self._looks = True
        self.wait_for(lambda: self._is_empty and self.counters.state == self.usual)
        self._end()
        can = self.can
        assert faults(self.history, final_acks=can.final_acks and can.single_acks and can.fenced) == []
        assert self.counters.degradations >= 1 and self.counters.recoveries >= 1, self._figures()

    def _figures(self) -> str:
        confirmed, acked = len(self.confirmed), len(self.acked)
        failed = str(self.failures[-1]) if self.failures else "none"
        return f"sent {self.sent}, confirmed {confirmed}, acked {acked}, {self.counters}, last failure: {failed}"

    # the threads

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            with self._changed:
                self._errors.append(error)
                self._changed.notify_all()

    def _note(self, what: Any, number: int, *into: set[int]) -> None:
        with self._changed:
            self.history.append(Event(what, number))
            for numbers in into:
                numbers.add(number)
            self._changed.notify_all()

    def _send(self) -> None:
        while not self._ended.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._ended.is_set() or self._may_send())
                if self._ended.is_set():
                    return
                count = 3 if self.sent % 2 else 1
                numbers = range(self.sent, self.sent + count)
                self.sent += count
            for number in numbers:
                self._note("sent", number)
            messages = [Outgoing(b"%d" % number) for number in numbers]
            try:
                if count == 1:
                    self._sender.send(self.queue, messages[0])
                else:
                    self._sender.send_batch(self.queue, messages)
            except (QueueStoreUnavailableError, QueueStoreFullError) as error:
                with self._changed:
                    self.failures.append(error)
                    self._changed.notify_all()
                self._ended.wait(_RETRY)
            else:
                for number in numbers:
                    self._note("confirmed", number, self.confirmed)

    def _may_send(self) -> bool:
        return len(self.confirmed) < (len(self.handled) + _MOST_AHEAD if self._streams else self.goal)

    def _handle(self) -> None:
        turn = 0
        while not self._ended.is_set():
            self._may_handle.wait()
            batch = self._consumer.next_batch(0.1)
            turn += 1
            for together in [batch] if turn % 2 else [[one] for one in batch]:
                for one in together:
                    self._note("handled", int(one.body), self.handled)
                self._ack(together)
            with self._changed:
                self._changed.notify_all()
            if self._looks and not batch:
                self._look()

    def _ack(self, deliveries: list[Delivery]) -> None:
        try:
            accepted = self._consumer.ack(deliveries)
        except QueueStoreUnavailableError:
            for one in deliveries:
                self._note("open", int(one.body), self.settled)
            return
        for one, done in zip(deliveries, accepted, strict=True):
            if done:
                self._note("acked", int(one.body), self.acked, self.settled)

    def _look(self) -> None:
        try:
            stats = self._receiver.stats(self.queue)
        except QueueStoreUnavailableError:
            return  # it is asked again
        with self._changed:
            self._is_empty = stats.ready == 0 and not stats.inflight
            self._changed.notify_all()

    def _end(self) -> None:
        self._ended.set()
        self._may_handle.set()
        self._consumer.stop()
        with self._changed:
            self._changed.notify_all()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join(PATIENCE)
                assert not thread.is_alive(), "a thread did not end"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end()
        finally:
            self._consumer.close()
            self._receiver.close()
            self._sender.close()
