"""`HybridConsumer`: push first, poll as fallback, over any store or broker."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self, TypeVar

from localqueue.brokers.course import Counters, Course, Listen, Mode, Receive, Rest, Step, Subscribe
from localqueue.brokers.port import Broker, Delivery, Subscription
from localqueue.brokers.store import as_broker
from localqueue.errors import QueueError, QueueStoreClosedError, QueueStoreUnavailableError
from localqueue.stores.port import QueueStore

R = TypeVar("R")

log = logging.getLogger("localqueue.brokers")


class _Consumer:
    """What both consumers have: the source, the steps of a course, and the settling."""

    def __init__(
        self,
        source: Broker | QueueStore | str,
        queue: str,
        *,
        mode: Mode = "hybrid",
        batch: int = 10,
        lease: float = 30.0,
        prefetch: int = 100,
        fallback_interval: float = 5.0,
    ) -> None:
        if isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 1:
            raise ValueError(f"prefetch must be a whole number from 1 on, not {prefetch!r}")
        self._owned = isinstance(source, str)
        self.broker = as_broker(source)
        self.queue = queue
        self._lease = lease
        self._prefetch = prefetch
        try:
            options = {"mode": mode, "batch": batch, "fallback_interval": fallback_interval}
            self._course = Course(self.broker.capabilities, **options)  # type: ignore[arg-type]
        except BaseException:
            if self._owned:
                self.broker.close()
            raise
        self._subscription: Subscription | None = None
        self._stopped = threading.Event()
        self._closed = False

    @property
    def counters(self) -> Counters:
        """What came by push and by poll so far, and whether push works now."""
        return self._course.counters

    def stop(self) -> None:
        """End the wait that runs; from now on nothing is found any more. May be called from any thread."""
        self._stopped.set()
        subscription = self._subscription
        if subscription is not None:
            subscription.wake()

    def _do(self, step: Step) -> Any:
        """One step, in this thread."""
        match step:
            case Subscribe():
                self._unsubscribe()  # from one that was given up in the middle
                subscribe: Callable[..., Subscription] = self.broker.subscribe  # type: ignore[attr-defined]
                self._subscription = subscribe(self.queue, prefetch=self._prefetch, lease=self._lease)
                return None
            case Listen(seconds):
                assert self._subscription is not None
                return None if self._stopped.is_set() else self._subscription.next(seconds)
            case Receive(limit, seconds):
                return self.broker.receive(self.queue, limit, wait=seconds, lease=self._lease)
            case Rest(seconds):
                self._stopped.wait(seconds)
                return None
            case _:
                self._unsubscribe()
                return None

    def _warn(self, error: QueueStoreUnavailableError) -> None:
        """Once an outage: what follows is in the counters."""
        if self.counters.state != "degraded":
            log.warning("queue %r: push or poll failed, asking again until it is back: %s", self.queue, error)

    def _unsubscribe(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            try:
                subscription.close()
            except QueueError:
                return  # it has failed already, which is why it is let go of

    def _settled(self, name: str, done: list[bool]) -> list[bool]:
        counters = self._course.counters
        setattr(counters, name, getattr(counters, name) + sum(done))
        counters.lost += done.count(False)
        return done

    def _ack(self, deliveries: Delivery | Sequence[Delivery]) -> list[bool]:
        return self._settled("acked", self.broker.ack(_several(deliveries)))

    def _nack(
        self, deliveries: Delivery | Sequence[Delivery], delay: float, dead: bool, error: Mapping[str, Any] | None
    ) -> list[bool]:
        done = self.broker.nack(_several(deliveries), delay=delay, dead=dead, error=error)
        return self._settled("dead_lettered" if dead else "returned", done)

    def _finish(self) -> None:
        """Give back what was found and not handed out, and let go of the source."""
        if self._closed:
            return
        self._closed = True
        self.stop()
        left = self._course.take()
        try:
            if left:
                self.broker.nack(left)
            self._unsubscribe()
        except QueueError:
            self._unsubscribe()  # what was not given back is when its lease runs out
        if self._owned:
            self.broker.close()

    def _require_open(self) -> None:
        if self._closed:
            raise QueueStoreClosedError(f"the consumer of queue {self.queue!r} is closed")


class HybridConsumer(_Consumer):
    """Finds messages by push where the source has it, and by polling where it has not or while push is down.

    `source` is a broker, a store, or the address of one. `mode` is `"hybrid"`, `"push_only"` (never asks on its own
    account; refused where there is no push) or `"poll_only"`. In hybrid mode a source whose push may lose a signal is
    also asked every `fallback_interval` seconds; when push fails, the consumer asks often, tries push again with
    growing pauses, and goes back to it. No more than `prefetch` messages are pushed that are not settled, and nothing
    is asked for that is not wanted: a consumer that is slow leaves messages at the source.

    What `next_batch` or the iteration hand out stays leased until it is settled by `ack` or `nack`. For one thread at a
    time; `stop`, `ack`, `nack` and `extend` may be called from any.
    """

    def next_batch(self, timeout: float | None = None) -> list[Delivery]:
        """Up to `batch` messages, waiting for the first; none after `timeout` seconds or `stop()`."""
        self._require_open()
        course = self._course.find(timeout)
        try:
            step = next(course)
            while not self._stopped.is_set():
                try:
                    answer = self._do(step)
                except QueueStoreUnavailableError as error:
                    self._warn(error)
                    step = course.throw(error)
                else:
                    step = course.send(answer)
        except StopIteration as end:
            found: list[Delivery] = end.value
            return found
        course.close()
        return []

    def __iter__(self) -> Iterator[Delivery]:
        """Messages one by one, until `stop()`."""
        while not self._stopped.is_set():
            found = self._course.found
            found.extend(self.next_batch())
            while found and not self._stopped.is_set():
                yield found.popleft()

    def ack(self, deliveries: Delivery | Sequence[Delivery]) -> list[bool]:
        """They are done: for each whether it was still ours."""
        return self._ack(deliveries)

    def nack(
        self,
        deliveries: Delivery | Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        """They are not done: deliver them again after `delay`, or keep them as dead letters."""
        return self._nack(deliveries, delay, dead, error)

    def extend(self, deliveries: Delivery | Sequence[Delivery], seconds: float) -> list[float | None]:
        """Hold them for longer; None for what is not ours any more."""
        return self.broker.extend(_several(deliveries), seconds)

    def close(self) -> None:
        """Stop, and give back what was found and not handed out."""
        self._finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncHybridConsumer(_Consumer):
    """`HybridConsumer` for coroutines: `await next_batch()`, `async for`, `await ack(...)`.

    What may block is done in a thread of its own. A `next_batch` that is cancelled loses nothing: what its last step
    brought is there for the next one.
    """

    def __init__(self, source: Broker | QueueStore | str, queue: str, **options: Any) -> None:
        super().__init__(source, queue, **options)
        self._finder = ThreadPoolExecutor(1, thread_name_prefix="localqueue-hybrid")
        self._settler = ThreadPoolExecutor(1, thread_name_prefix="localqueue-settle")
        self._left: tuple[Step, asyncio.Future[Any]] | None = None

    async def next_batch(self, timeout: float | None = None) -> list[Delivery]:
        """Up to `batch` messages, waiting for the first; none after `timeout` seconds or `stop()`."""
        self._require_open()
        await self._take_up()
        course = self._course.find(timeout)
        try:
            step = next(course)
            while not self._stopped.is_set():
                try:
                    answer = await self._off_loop(step)
                except QueueStoreUnavailableError as error:
                    self._warn(error)
                    step = course.throw(error)
                else:
                    step = course.send(answer)
        except StopIteration as end:
            brought: list[Delivery] = end.value
            return brought
        course.close()
        return []

    async def _off_loop(self, step: Step) -> Any:
        """A step in the thread. Who is cancelled leaves it to the next who comes, and what it brings too."""
        working = asyncio.get_running_loop().run_in_executor(self._finder, self._do, step)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._left = step, working
            if self._subscription is not None:
                self._subscription.wake()
            raise

    async def _take_up(self) -> None:
        """Wait for the step that a search which was cancelled has left under way."""
        if self._left is None:
            return
        step, working = self._left
        try:
            answer = await asyncio.shield(working)
        except QueueError:
            self._course.interrupted()
        else:
            self._course.take_up(step, answer)
        self._left = None

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        while not self._stopped.is_set():
            found = self._course.found
            found.extend(await self.next_batch())
            while found and not self._stopped.is_set():
                yield found.popleft()

    async def ack(self, deliveries: Delivery | Sequence[Delivery]) -> list[bool]:
        """They are done: for each whether it was still ours."""
        return await self._settle(lambda: self._ack(deliveries))

    async def nack(
        self,
        deliveries: Delivery | Sequence[Delivery],
        *,
        delay: float = 0.0,
        dead: bool = False,
        error: Mapping[str, Any] | None = None,
    ) -> list[bool]:
        """They are not done: deliver them again after `delay`, or keep them as dead letters."""
        return await self._settle(lambda: self._nack(deliveries, delay, dead, error))

    async def extend(self, deliveries: Delivery | Sequence[Delivery], seconds: float) -> list[float | None]:
        """Hold them for longer; None for what is not ours any more."""
        return await self._settle(lambda: self.broker.extend(_several(deliveries), seconds))

    async def _settle(self, work: Callable[[], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._settler, work)

    async def close(self) -> None:
        """Stop, and give back what was found and not handed out."""
        self.stop()
        if not self._closed:
            await self._take_up()
            await asyncio.get_running_loop().run_in_executor(self._finder, self._finish)
        self._finder.shutdown(wait=False)
        self._settler.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _several(deliveries: Delivery | Sequence[Delivery]) -> Sequence[Delivery]:
    return (deliveries,) if isinstance(deliveries, Delivery) else deliveries
