"""`Bridge`: from a queue of a store or broker to a queue of another, and what happens when either is away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from localqueue.bridges.counts import BridgeCounts
from localqueue.brokers.course import Counters
from localqueue.brokers.hybrid import HybridConsumer
from localqueue.brokers.port import Broker, Delivery, Outgoing
from localqueue.brokers.senders import REMEMBERED, Parcel, Sent, refuses, sender_to
from localqueue.errors import QueueError, QueueStoreClosedError, QueueStoreError
from localqueue.interrupts import asks_to_end
from localqueue.limits.rate import rate_of
from localqueue.policies._limits import require_integer, require_seconds
from localqueue.stores.kept_error import describe_error, shown
from localqueue.stores.port import QueueStore
from localqueue.workers.signals import StopFlag, StopSignals

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.bridges")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 10.0
_EMPTY = 1.0  # seconds without a message after which a source is called empty
_SLICE = 5.0
_LOOK_FOR_SIGNALS = 0.1

Change = Callable[[Outgoing], Outgoing | None]


class Bridge:
    """Moves the messages of `queue` at `source` to `to` (the same name unless given) at `target`, until it is stopped.

    Both are a store, a broker, or the address of one. A message is acked at the source when the target has it: into a
    store it comes exactly once, because the commit that stores it notes where it came from (for `remember` seconds);
    into a broker at least once, under the same id, with that as its dedupe key where the broker has dedupe keys. So a
    bridge that dies goes on where it was, and any number of them may run side by side. One bridge keeps the order of
    its source, and sends on nothing behind a message that could not be sent; several keep the order of a key only where
    the source hands out one message of a key at a time.

    A target that is away is tried again with growing pauses while the messages are held. A message that the target will
    never take becomes a dead letter of the source, with the reason. `rate` ("100/s") slows the bridge down. `change`
    gets each message and returns what is to be sent instead, or None to leave it out.
    """

    def __init__(
        self,
        source: Broker | QueueStore | str,
        target: Broker | QueueStore | str,
        *,
        queue: str,
        to: str | None = None,
        name: str | None = None,
        batch: int = 100,
        lease: float = 60.0,
        rate: str | tuple[int, float] | None = None,
        remember: float = REMEMBERED,
        change: Change | None = None,
    ) -> None:
        if require_integer("batch", batch) < 1:
            raise ValueError(f"batch must be at least 1, not {batch}")
        if not require_seconds("remember", remember) > 0:
            raise ValueError(f"remember must be greater than zero, not {remember!r}")
        if change is not None and not callable(change):
            raise TypeError(f"change must be callable, not {change!r}")
        self.queue = queue
        self.to = queue if to is None else to
        self._rate = None if rate is None else rate_of(rate)
        self._lease = lease
        self._change = change
        most = batch if self._rate is None else min(batch, self._rate.most)
        self._consumer = HybridConsumer(source, queue, batch=most, lease=lease, prefetch=2 * most)
        self.source = self._consumer.broker
        try:
            self._require_two_places(target)
            self.name = name or f"{self.source.url}#{queue}"
            self._sender = sender_to(target, self.to, source=self.name, remember=remember)
        except BaseException:
            self._consumer.close()
            raise
        self._counts = BridgeCounts()
        self._stopping = StopFlag()
        self._not_before = 0.0
        self._receiver = ThreadPoolExecutor(1, thread_name_prefix="localqueue-bridge")
        self._ahead: Future[list[Delivery]] | None = None

    @classmethod
    def of(cls, queue: PersistentQueue[Any], **options: Any) -> Bridge:
        """The bridge that carries a queue to where its `RemoteQueuePlacement(target=...)` says it belongs."""
        target = getattr(queue.locality_policy, "target", None)
        if target is None:
            raise ValueError(
                f"queue {queue.name!r} names no place to go to; give it "
                "locality_policy=RemoteQueuePlacement(target='amqp://...')"
            )
        to = getattr(queue.locality_policy, "queue", None) or queue.name
        return cls(queue.store, target, queue=queue.name, **{"to": to, **options})

    @property
    def counts(self) -> BridgeCounts:
        """What was done so far."""
        return self._counts

    @property
    def counters(self) -> Counters:
        """How messages were found at the source: by push and by poll."""
        return self._consumer.counters

    def run(self, *, signals: bool = False) -> BridgeCounts:
        """Move messages until `stop()`; with `signals`, in the main thread, also until SIGTERM or SIGINT."""

        def work() -> None:
            while not self._stopping.is_set():
                self._move(_SLICE)

        return self._work(work, signals)

    def run_until_empty(self, *, signals: bool = False, patience: float = _EMPTY) -> BridgeCounts:
        """Move what is there; ends when nothing came for `patience` seconds."""

        def work() -> None:
            while not self._stopping.is_set() and self._move(patience):
                pass

        return self._work(work, signals)

    def _work(self, work: Callable[[], None], signals: bool) -> BridgeCounts:
        if not signals:
            work()
            return self._counts
        failures: list[BaseException] = []

        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        # A signal handler may not wait for a lock, so it only leaves word, and the work is done in another thread.
        asked = StopFlag()
        thread = threading.Thread(target=run, name="localqueue-bridge", daemon=True)
        with StopSignals(asked.set):
            thread.start()
            while thread.is_alive():
                if asked.is_set():
                    self.stop()
                thread.join(_LOOK_FOR_SIGNALS)
        if failures:
            raise failures[0]
        return self._counts

    def stop(self) -> None:
        """Finish the batch under way, or give it back if the target is away. May be called from any thread."""
        self._stopping.set()
        self._consumer.stop()

    def close(self) -> None:
        """Stop, and close what was opened by its address."""
        self.stop()
        ahead, self._ahead = self._ahead, None
        try:
            if ahead is not None and (found := ahead.result()):
                self._give_back(found)
            self._sender.close()
        finally:
            self._receiver.shutdown()
            self._consumer.close()

    def _move(self, wait: float) -> bool:
        """One batch; whether there was one."""
        if not self._is_in_pace():
            return True
        try:
            found = self._next_batch(wait)
        except QueueStoreClosedError:
            raise
        except QueueStoreError as error:
            log.warning("bridge %s: the source does not answer, trying again: %s", self.name, error)
            self._stopping.wait(_FIRST_PAUSE)
            return True
        if not found:
            return self._consumer.counters.state == "degraded"
        self._note(received=len(found))
        if self._rate is not None:
            self._not_before = max(time.monotonic(), self._not_before) + len(found) * self._rate.interval
        elif not self._stopping.is_set():
            self._ahead = self._receiver.submit(self._consumer.next_batch, 0.0)
        self._send(found)
        return True

    def _next_batch(self, wait: float) -> list[Delivery]:
        """What was received while the last batch was sent, or what comes now."""
        ahead, self._ahead = self._ahead, None
        return (ahead is not None and ahead.result()) or self._consumer.next_batch(wait)

    def _send(self, found: Sequence[Delivery]) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                self._deliver(found)
                return
            except QueueStoreClosedError:
                raise
            except Exception as error:
                if refuses(error):
                    return self._send_one_by_one(found, error)
                if not isinstance(error, QueueError):
                    self._give_back(found)
                    raise
                log.warning("bridge %s: the target does not take messages, trying again: %s", self.name, error)
                self._note(retries=1)
            except BaseException as error:
                if asks_to_end(error):
                    self._give_back(found)
                raise
            if self._stopping.wait(pause):
                return self._give_back(found)
            pause = min(2 * pause, _LONGEST_PAUSE)
            found = self._hold(found)
            if not found:
                return

    def _hold(self, found: Sequence[Delivery]) -> Sequence[Delivery]:
        """Keep what is under way, and what was received ahead, for longer; what of it is still ours."""
        ahead = [] if self._ahead is None else self._ahead.result()
        both = [*found, *ahead]
        try:
            held = self.source.extend(both, self._lease)
        except QueueStoreError:
            return found  # the source is away as well; it knows what is ours when it is back
        self._note(lost=held.count(None))
        if self._ahead is not None:
            left = [one for one, until in zip(ahead, held[len(found) :], strict=True) if until is not None]
            self._ahead = self._receiver.submit(lambda: left)
        return [one for one, until in zip(found, held, strict=False) if until is not None]

    def _deliver(self, found: Sequence[Delivery]) -> None:
        parcels = [parcel for one in found if (parcel := self._parcel(one)) is not None]
        sent = self._sender.send(parcels) if parcels else Sent()
        acked = self._consumer.ack(list(found))
        if self.source.capabilities.final_acks:
            self._sender.forget([one.id for one, done in zip(found, acked, strict=True) if done])
        self._note(
            moved=sent.moved,
            duplicates=sent.duplicates,
            lost=acked.count(False),
            bytes=sum(len(parcel.message.body) for parcel in parcels),
        )

    def _send_one_by_one(self, found: Sequence[Delivery], error: Exception) -> None:
        """One of them is refused for good: find it, bury it, and move the others."""
        if len(found) > 1:
            for one in found:
                self._send([one])
            return
        log.error("bridge %s: message %s can not be sent: %s", self.name, found[0].id, shown(error))
        self._consumer.nack(list(found), dead=True, error=describe_error(error))
        self._note(dead_lettered=1)

    def _parcel(self, one: Delivery) -> Parcel | None:
        message = Outgoing(one.body, one.headers, one.id, one.key, 0.0, one.priority, one.dedupe_key)
        if self._change is not None:
            changed = self._change(message)
            if changed is None:
                return None
            if not isinstance(changed, Outgoing):
                raise TypeError(f"change returned {changed!r} for message {one.id}; it returns an Outgoing, or None")
            message = changed
        return Parcel(one.id, message)

    def _give_back(self, found: Sequence[Delivery]) -> None:
        try:
            self._consumer.nack(list(found))
        except QueueError as error:
            log.warning("bridge %s: messages stay leased until their leases run out: %s", self.name, error)

    def _is_in_pace(self) -> bool:
        """Wait until the rate allows the next batch; False when the bridge is stopped first."""
        left = self._not_before - time.monotonic()
        return left <= 0 or not self._stopping.wait(left)

    def _note(self, **counts: int) -> None:
        self._counts += BridgeCounts(**counts)

    def _require_two_places(self, target: Any) -> None:
        there = target if isinstance(target, str) else getattr(target, "url", None)
        alone = there == self.source.url and not str(there).startswith("memory:")
        if (alone or target is getattr(self.source, "store", self.source)) and self.to == self.queue:
            raise ValueError(
                f"source and target are both queue {self.queue!r} of {self.source.url}; name another by to="
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Bridge({self.source.url!r}, queue={self.queue!r}, to={self.to!r})"
