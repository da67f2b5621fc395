"""`AsyncQueue`: the methods of a queue as coroutines, of which none blocks the event loop."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, cast

from localqueue._dataclass import replace
from localqueue.aio.line import Line
from localqueue.aio.native import calls_of
from localqueue.aio.threads import call, opener, threads_of
from localqueue.aio.watch import Watch
from localqueue.errors import QueueFull, QueueStoreClosedError, ResultTimeout
from localqueue.jobs.status import JobStatus
from localqueue.message import QueueMessage, QueueStats, T
from localqueue.queue import PersistentQueue, Transaction
from localqueue.queue.drafts import BatchOptions, PutOptions, check_count, check_key, check_timeout, one_key_each
from localqueue.queue.payloads import plain_batch, plain_message
from localqueue.stores.port import AsyncCalls, Changes

R = TypeVar("R")


class AsyncQueue(Generic[T]):
    """The asyncio face of a `PersistentQueue`: `AsyncQueue(queue)`, or with the arguments of one.

    Each method does what the method of that name does there. Everyday calls are made on the event loop where the store
    can (see `docs/async.md`), all others in threads of the store's, one where calls take turns (SQLite, LMDB, memory),
    a few for a server; a coroutine that waits, for a message, for room or for a result, has no thread. Any number of
    coroutines may share the object.

    Every method may be cancelled. A `get` that is cancelled has taken nothing when it raises: it waits for the call to
    the store that is under way, and what that claimed is given back as if it had never been delivered. Of any other
    call that was cancelled nobody knows whether the store has done it.

    `async for message in queue` leases messages until the queue is closed; settle each. Close the object, or use it in
    an `async with` block: a queue that was passed in, and a store that was, stay open.
    """

    def __init__(self, queue: PersistentQueue[T] | str | None = None, **options: Any) -> None:
        if isinstance(queue, PersistentQueue):
            if options:
                raise TypeError(
                    f"{queue!r} has its options already; pass {', '.join(sorted(options))} to PersistentQueue, or give "
                    "the name of the queue instead of a queue"
                )
            self.queue = queue
        else:
            self.queue = PersistentQueue(queue, **options)
        self._owns_queue = self.queue is not queue
        self._closed = False
        self._lines: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str | None, Line[T]]]
        self._lines = weakref.WeakKeyDictionary()

    @property
    def name(self) -> str:
        return self.queue.name

    # putting

    async def put(
        self, item: T, block: bool = True, timeout: float | None = None, **options: Unpack[PutOptions]
    ) -> QueueMessage[T]:
        """Store an item durably and return its message, with the options of `PersistentQueue.put`.

        Cancelled, it has stored the item or not, and nobody knows which: with a `dedupe_key` it can be put again.
        """
        desk = self.queue.desk
        calls = self._calls() if desk.is_plain and desk.is_quiet and timeout is None and not options else None
        if calls is not None:
            stored = await calls.put_one(self.name, desk.payloads.encode(item), desk.payloads.codec_name)
            return plain_message(stored[0], self.name, stored[1], item)
        if not desk.admission.may_wait:
            return await self._do(self.queue.put, item, block, timeout, **options)
        key = options.pop("dedupe_key", None)
        return (await self._put((item,), (key,), block, timeout, options))[0]

    async def put_many(
        self,
        items: Iterable[T],
        block: bool = True,
        timeout: float | None = None,
        *,
        dedupe_keys: Iterable[str] | None = None,
        **options: Unpack[BatchOptions],
    ) -> Sequence[QueueMessage[T]]:
        """Store all items in one transaction, in order, or none of them."""
        values = tuple(items)
        keys = one_key_each(dedupe_keys, len(values))
        desk, simple = self.queue.desk, timeout is None and dedupe_keys is None and not options
        calls = self._calls() if values and simple and desk.is_plain and desk.is_quiet else None
        if calls is not None:
            payloads = [desk.payloads.encode(value) for value in values]
            ids, at = await calls.put_batch(self.name, payloads, desk.payloads.codec_name)
            return plain_batch(ids, self.name, at, values)
        if not desk.admission.may_wait:
            given = None if dedupe_keys is None else cast("tuple[str, ...]", keys)
            return await self._do(self.queue.put_many, values, block, timeout, dedupe_keys=given, **options)
        return await self._put(values, keys, block, timeout, options) if values else []

    async def _put(
        self,
        items: tuple[T, ...],
        dedupe_keys: tuple[str | None, ...],
        block: bool,
        timeout: float | None,
        options: BatchOptions,
    ) -> Sequence[QueueMessage[T]]:
        """Put when there is room. The waiting is done here, so that no thread of the store's is held meanwhile."""
        desk = self.queue.desk
        admission, threads = desk.admission, await self._threads()
        deadline = None if timeout is None else time.monotonic() + timeout
        admission.check_fits(len(items))
        drafts = await self._do(desk.drafts, items, dedupe_keys, timeout=timeout, **options)
        pause = await self._do(admission.pause, block, timeout)
        if pause > 0:
            await asyncio.sleep(pause)
        with Watch(threads, partial(admission.listen, len(items))) as watch:
            while True:
                watch.bell.clear()
                try:
                    return await self._do(lambda: desk.announce_all(desk.enqueue(drafts), items))
                except QueueFull:
                    remaining = _remaining(deadline)
                    if not block or admission.rejects or remaining == 0.0:
                        raise
                    await watch.rest(admission.longest_rest(remaining))

    # taking

    async def get(self, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None) -> T:
        """Lease a message and return only its value; `task_done()` acks it."""
        message = await self.get_message(block, timeout, leased_by=leased_by)
        if not self.queue.desk.consumes:
            self.queue.desk.unfinished.add(message)
        return message.value

    async def get_message(
        self, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None
    ) -> QueueMessage[T]:
        """Lease the next message, waiting for one; `queue.Empty` when none came within `timeout` seconds.

        Those who wait are served in the order they came. A message that this returned is the caller's to settle.
        """
        return (await self._take(1, block, timeout, leased_by))[0]

    async def get_messages(
        self, n: int, block: bool = True, timeout: float | None = None, *, leased_by: str | None = None
    ) -> list[QueueMessage[T]]:
        """Lease up to `n` messages at once, waiting only for the first."""
        return await self._take(check_count(n), block, timeout, leased_by)

    async def _take(self, n: int, block: bool, timeout: float | None, leased_by: str | None) -> list[QueueMessage[T]]:
        check_timeout(timeout)
        if leased_by is not None:
            check_key("leased_by", leased_by)
        threads = await self._threads()
        lines = self._lines.setdefault(asyncio.get_running_loop(), {})
        if leased_by not in lines:
            lines[leased_by] = Line(self.queue, threads, leased_by)
        return await lines[leased_by].take(n, timeout if block else 0.0)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> QueueMessage[T]:
        try:
            return await self.get_message()
        except QueueStoreClosedError:
            if self._closed:
                raise StopAsyncIteration from None
            raise

    # settling

    async def ack(self, message: QueueMessage[Any] | str, *, result: Any = None) -> bool:
        """Remove a message for good. False when its lease was lost (or it is gone): then nothing changed."""
        desk, calls = self.queue.desk, self._calls()
        if calls is None or not desk.acks_at_once(message, result):
            return await self._do(self.queue.ack, message, result=result)
        acked = await calls.ack_one(self.name, message.id, message.attempts)
        if desk.unfinished.messages:
            desk.unfinished.forget(message)
        return acked

    async def ack_many(
        self, messages: Iterable[QueueMessage[Any] | str], results: Iterable[Any] | None = None
    ) -> list[bool]:
        """Ack several messages in one transaction; False for each whose lease was lost."""
        batch, desk, calls = list(messages), self.queue.desk, self._calls()
        if calls is None or results is not None or desk.endings.keep is not None or not batch:
            return await self._do(self.queue.ack_many, batch, None if results is None else list(results))
        settled = (await calls.commit(Changes(settle=desk.acks(batch), strict=False))).settled
        if desk.unfinished.messages:
            desk.unfinished.forget(*batch)
        return settled

    async def release(self, message: QueueMessage[Any] | str, *, delay: float = 0.0, error: object = None) -> bool:
        """Give a message back, to be delivered again after `delay`."""
        return await self._do(self.queue.release, message, delay=delay, error=error)

    async def dead_letter(self, message: QueueMessage[Any] | str, *, error: object = None) -> bool:
        """Take a message out of delivery and keep it for inspection."""
        return await self._do(self.queue.dead_letter, message, error=error)

    async def cancel(self, message: QueueMessage[Any] | str) -> bool:
        """Take a message out of delivery because it is not wanted any more."""
        return await self._do(self.queue.cancel, message)

    async def renew(self, message: QueueMessage[T], *, timeout: float | None = None) -> QueueMessage[T] | None:
        """Extend the lease from now by the queue's lease timeout (or `timeout`); None when the lease was lost."""
        calls = self._calls()
        if calls is None:
            return await self._do(self.queue.renew, message, timeout=timeout)
        lease, seconds = self.queue.desk.renewal(message, timeout)
        (until,) = await calls.renew([lease], timeout=seconds)
        return None if until is None else replace(message, leased_until=until)

    async def task_done(self) -> bool:
        """Ack the oldest unfinished `get()` of this queue object."""
        return await self.ack(self.queue.desk.unfinished.oldest())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Settle and put several messages together or not at all: `async with queue.transaction() as tx`.

        `tx` collects, and its methods are no coroutines; it is committed, off the loop, when the block ends without an
        exception. Another queue is named by its `PersistentQueue`: `tx.put(item, to=other.queue)`.
        """
        await self._threads()  # what the transaction asks of the queue is there when the store is open
        transaction = Transaction(self.queue)
        yield transaction
        await self._do(transaction.commit)

    # looking

    async def qsize(self) -> int:
        """Messages that can be leased now."""
        return await self._look(self.queue.qsize)

    async def stats(self) -> QueueStats:
        """How many messages are in which state."""
        return await self._look(self.queue.stats)

    async def status(self, message: QueueMessage[Any] | str) -> JobStatus | None:
        """How a message stands, or what became of it; None when nothing is known of it."""
        return await self._look(partial(self.queue.status, message))

    async def result(self, message: QueueMessage[Any] | str, timeout: float | None = None) -> Any:
        """Wait until a message is done and return what its handler returned, or raise what became of it."""
        check_timeout(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        with Watch(self._threads_to_look(), partial(self.queue.listen_result, message)) as watch:
            while True:
                watch.bell.clear()
                try:
                    return await self._look(partial(self.queue.result, message, 0.0))
                except ResultTimeout as error:
                    remaining = _remaining(deadline)
                    if timeout is not None and remaining == 0.0:
                        raise ResultTimeout(error.queue, error.message_id, timeout) from None
                    await watch.rest(remaining)

    # life

    async def aclose(self) -> None:
        """Have those who wait fail with `QueueStoreClosedError`, and close the queue unless it was passed in."""
        self._closed = True
        for line in list(self._lines.get(asyncio.get_running_loop(), {}).values()):
            await line.close()
        if self._owns_queue:
            await call(self._threads_as_it_is(), self.queue.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"AsyncQueue({self.queue!r})"

    def _calls(self) -> AsyncCalls | None:
        """Those that need no thread."""
        self._require_open()
        return calls_of(self.queue)

    async def _threads(self) -> ThreadPoolExecutor:
        """Those of the store, which is opened if nobody needed it before."""
        self._require_open()
        tenancy = self.queue.desk.tenancy
        store = tenancy.current
        return threads_of(await call(opener(), tenancy.open) if store is None else store)

    async def _do(self, work: Callable[..., R], *arguments: Any, **options: Any) -> R:
        return await call(await self._threads(), partial(work, *arguments, **options))

    async def _look(self, work: Callable[[], R]) -> R:
        return await call(self._threads_to_look(), work)

    def _threads_to_look(self) -> ThreadPoolExecutor:
        """Where no store was made yet, a look makes none."""
        self._require_open()
        return self._threads_as_it_is()

    def _threads_as_it_is(self) -> ThreadPoolExecutor:
        store = self.queue.desk.tenancy.current
        return opener() if store is None else threads_of(store)

    def _require_open(self) -> None:
        if self._closed:
            raise QueueStoreClosedError(f"queue {self.name!r} is closed")


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
