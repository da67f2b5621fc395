"""The line of coroutines that wait for a message of one queue.

They have one claim at a time made for all of them, which asks for as many messages as they want together, and messages
are handed over in the order of the line. So a thousand coroutines that wait cost the store what one does, and one put
is one claim. A coroutine that was cancelled leaves the line; a message that was claimed for it goes to the next one, or
back to the store as if it had never been claimed.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from queue import Empty
from typing import Any, Generic

from localqueue.aio.native import calls_of
from localqueue.aio.threads import call, outlast
from localqueue.aio.watch import Watch
from localqueue.errors import PayloadError, QueueStoreClosedError
from localqueue.message import QueueMessage, T
from localqueue.queue import PersistentQueue
from localqueue.stores.port import Changes, Settle, StoredMessage

_MOST = 10_000  # messages of one claim for several

_log = logging.getLogger("localqueue")


class Place(Generic[T]):
    """One who waits for up to `wanted` messages. `tried` when a claim was made since it came."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.tried = False
        self.given: asyncio.Future[list[QueueMessage[T]]] = asyncio.get_running_loop().create_future()


class Line(Generic[T]):
    """For one queue object, one loop, and one name to lease under."""

    def __init__(self, queue: PersistentQueue[T], threads: ThreadPoolExecutor, leased_by: str | None) -> None:
        self._queue = queue
        self._threads = threads
        self._leased_by = leased_by
        self._loop = asyncio.get_running_loop()
        self._places: dict[Place[T], None] = {}
        self._claimed: deque[QueueMessage[T]] = deque()  # and not handed over
        self._claiming = False
        self._end_of_claim: asyncio.Future[None] = self._loop.create_future()  # of the one that runs, or else the next
        self._watch: Watch | None = None
        self._service: asyncio.Task[None] | None = None
        self._closed = False

    async def take(self, wanted: int, timeout: float | None) -> list[QueueMessage[T]]:
        """Up to so many messages, at least one; `Empty` when there was none until `timeout`.

        Cancelled, it has taken nothing when it raises.
        """
        place = self._join(wanted)
        try:
            await asyncio.wait((place.given,), timeout=timeout)
            while not (place.given.done() or place.tried):
                await self._until_claimed(place)
            if self._claiming:
                await self._until_claimed(place)
        except asyncio.CancelledError:
            await self._leave(place)
            raise
        self._places.pop(place, None)
        self._dismiss()
        if not place.given.done():
            raise Empty
        return place.given.result()

    async def close(self) -> None:
        """Have all who wait fail, and return when nothing is under way."""
        self._closed = True
        self._fail(self._refusal())
        if self._service is not None:
            self._dismiss()
            cancelled = await outlast(self._service)
            if cancelled is not None:
                raise cancelled

    def _join(self, wanted: int) -> Place[T]:
        if self._closed:
            raise self._refusal()
        place = Place[T](wanted)
        self._places[place] = None
        if self._watch is not None:
            self._watch.bell.set()
        if self._service is None or self._service.done():
            self._service = self._loop.create_task(self._serve(), name=f"localqueue-line-{self._queue.name}")
        return place

    async def _until_claimed(self, place: Place[T]) -> None:
        await asyncio.wait((place.given, self._end_of_claim), return_when=asyncio.FIRST_COMPLETED)

    async def _leave(self, place: Place[T]) -> None:
        """Have no message be claimed for it any more when this returns."""
        self._places.pop(place, None)
        if place.given.done() and not place.given.cancelled() and place.given.exception() is None:
            self._claimed.extendleft(reversed(place.given.result()))
        if self._claiming:  # for this place too; what nobody takes is given back by then
            await outlast(self._end_of_claim)
        await self._give_back()
        self._dismiss()

    def _dismiss(self) -> None:
        """Let the service end when nobody is left, and hand over what was left."""
        if self._watch is not None and (self._claimed or not self._places):
            self._watch.bell.set()

    async def _serve(self) -> None:
        try:
            with Watch(self._threads, self._listen) as self._watch:
                while self._places:
                    self._watch.bell.clear()
                    if not await self._claim() and self._places:
                        await self._watch.rest()
        except Exception as error:
            self._fail(error)
        finally:
            self._watch = self._service = None
            for place in self._places:  # it was cancelled itself
                place.given.cancel()
            self._places.clear()

    def _listen(self) -> Any:
        return self._queue.store.listen((self._queue.name,), worker=self._leased_by)

    async def _claim(self) -> bool:
        """Claim for all in the line, and hand over. Whether there may be more."""
        tried = list(self._places)
        wanted = max(tried[0].wanted, min(sum(place.wanted for place in tried), _MOST))
        self._claiming = True
        try:
            cancelled = None
            if wanted > len(self._claimed):
                cancelled = await self._lease(wanted - len(self._claimed))
            is_full = len(self._claimed) >= wanted
            for place in tried:
                place.tried = True
            self._hand_over()
            cancelled = await self._give_back() or cancelled
            if cancelled is not None:
                raise cancelled
            return is_full
        finally:
            self._claiming = False
            self._end_of_claim.set_result(None)
            self._end_of_claim = self._loop.create_future()

    async def _lease(self, wanted: int) -> asyncio.CancelledError | None:
        """Add to what is claimed."""
        calls = calls_of(self._queue)
        if calls is None:
            claim = call(self._threads, self._lease_in_thread, wanted)
            cancelled = await outlast(claim)
            self._claimed.extend(claim.result())
            return cancelled
        desk = self._queue.desk
        leasing = calls.lease(desk.request._replace(limit=wanted, leased_by=self._leased_by))
        cancelled = await outlast(leasing)
        unread = []
        for stored in leasing.result():
            try:
                self._claimed.append(desk.read(stored))
            except PayloadError:
                unread.append(stored)
        return (await self._bury(unread) if unread else None) or cancelled

    async def _bury(self, unread: list[StoredMessage]) -> asyncio.CancelledError | None:
        """What can not be read becomes a dead letter."""
        burying = call(self._threads, lambda: [self._queue.desk.unpack(one) for one in unread])
        cancelled = await outlast(burying)
        error = burying.exception()
        if error is not None:
            _log.warning("messages of queue %r can be neither read nor dead-lettered: %s", self._queue.name, error)
        return cancelled

    def _lease_in_thread(self, wanted: int) -> list[QueueMessage[T]]:
        try:
            return self._queue.get_messages(wanted, block=False, leased_by=self._leased_by)
        except Empty:
            return []

    def _hand_over(self) -> None:
        while self._claimed and self._places:
            place = next(iter(self._places))
            del self._places[place]
            taken = min(place.wanted, len(self._claimed))
            place.given.set_result([self._claimed.popleft() for _ in range(taken)])

    async def _give_back(self) -> asyncio.CancelledError | None:
        """What nobody takes goes back, and does not count as delivered. What was acked when it was claimed can not go
        back: the next one gets it."""
        if not self._claimed or self._queue.desk.consumes:
            return None
        messages = list(self._claimed)
        self._claimed.clear()
        giving = call(self._threads, give_back, self._queue, messages)
        cancelled = await outlast(giving)
        error = giving.exception()
        if error is not None:
            _log.warning(
                "%d messages of queue %r could not be given back (%s); they come again when their leases run out",
                len(messages),
                self._queue.name,
                error,
            )
        return cancelled

    def _fail(self, error: Exception) -> None:
        places = list(self._places)
        self._places.clear()
        for place in places:
            if not place.given.done():
                place.given.set_exception(error)

    def _refusal(self) -> QueueStoreClosedError:
        return QueueStoreClosedError(f"queue {self._queue.name!r} is closed")


def give_back(queue: PersistentQueue[Any], messages: list[QueueMessage[Any]]) -> None:
    """Release messages that nobody has seen: they keep their place, and the delivery does not count."""
    settles = [Settle(queue.name, one.id, "release", one.attempts, forgive=True) for one in messages]
    queue.desk.commit(Changes(settle=settles, strict=False), messages)
