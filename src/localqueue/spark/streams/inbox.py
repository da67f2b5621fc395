"""Waiting for a broker while Spark asks every few milliseconds: receiving is waiting, and another thread does it."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from localqueue.brokers.port import Broker, Delivery

_SLICE = 10.0  # seconds that one call to the broker may wait
_PAGE = 100


class Inbox:
    """Listens from the first `heard` on, until what came is taken. A look at it costs nothing."""

    def __init__(self, broker: Broker, queue: str, lease: float) -> None:
        self._broker = broker
        self._queue = queue
        self._lease = lease
        self._pool = ThreadPoolExecutor(1, "localqueue-inbox")
        self._coming: Future[list[Delivery]] | None = None
        self.used = False

    @property
    def listens(self) -> bool:
        """Whether a call to the broker waits right now: then there is nothing to be had."""
        return self._coming is not None and not self._coming.done()

    def take(self) -> list[Delivery]:
        """What has come since."""
        if self._coming is None or self.listens:
            return []
        came, self._coming = self._coming, None
        return came.result()

    def heard(self, timeout: float | None = None) -> bool:
        """Whether something came, or the wait ended; never waits itself."""
        self.used = True
        if self._coming is None:
            self._coming = self._pool.submit(self._broker.receive, self._queue, _PAGE, wait=_SLICE, lease=self._lease)
        return self._coming.done()

    wait = heard

    def interrupt(self) -> None:
        """Nobody waits in it."""

    def close(self) -> None:
        """Listen no more. Whoever closes the broker first ends the call that waits."""
        self._pool.shutdown(wait=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
