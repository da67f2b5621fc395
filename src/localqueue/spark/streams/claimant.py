"""The driver's side of mode `consume`: when to look for messages, when to stop, what to tell of the backlog."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

from localqueue.errors import QueueError
from localqueue.spark.options import Options
from localqueue.spark.streams.claim_draft import Draft
from localqueue.spark.streams.claim_place import open_place
from localqueue.spark.streams.claims import Claims
from localqueue.spark.streams.consumer_record import worker_name
from localqueue.spark.streams.keeper import Keeper
from localqueue.spark.streams.verdict import Misfits

_PARTS = 4
_PART_ROWS = 5_000
_LOOK = 0.02  # seconds between looks at a queue that had nothing
_ASK = 1.0  # seconds after which it is asked for messages whatever the look says
_REPORT = 1.0  # seconds between counts of the backlog, more where counting is slow
_REPORT_SHARE = 20


class Claimant:
    """One consumer's store, open for as long as the query runs. Spark asks it every few milliseconds.

    After a claim that was as large as it may be, the work goes on while Spark runs its batch: the claim before is
    settled and the messages of the next are leased. Otherwise Spark would wait for that between any two batches.
    """

    def __init__(self, options: Options, misfits: Misfits | None = None) -> None:
        self._options = options
        assert options.consumer is not None
        self._store, self._queue = open_place(options)
        self.claims = Claims(
            self._store,
            self._queue,
            options.consumer,
            timeout=options.claim_timeout,
            max_attempts=options.max_attempts,
            fail_on_data_loss=options.fail_on_data_loss,
            chunk_rows=self._chunk_rows,
            misfits=misfits,
            broker=options.at_broker,
        )
        self._waiter = self._store.listen([self._queue], worker=worker_name(options.consumer))
        self._keeper = Keeper(self._store, self.claims.leases, options.claim_timeout, self.claims.live)
        self._left: int | None = None
        self._aside = ThreadPoolExecutor(1, "localqueue-claims")
        self._beside = ThreadPoolExecutor(1, "localqueue-settles")
        self._ahead: Future[Draft] | None = None
        self._look_at = self._ask_at = self._report_at = 0.0
        self._backlog, self._oldest_age = 0, 0.0

    def advance(self, start: int, limit: int | None) -> int:
        """Settle everything up to `start`; the claim that comes next, or `start` when there is nothing to claim."""
        claims = self.claims
        if self._ahead is not None:
            ahead, self._ahead = self._ahead.result(), None
            if start == claims.claimed and ahead.blobs:
                claims.write(ahead)
                self._claimed(len(ahead.held))
                self._go_ahead(start, limit, len(ahead.held))
                return claims.claimed
            if start == claims.claimed:
                claims.write(ahead)  # only dead letters, or nothing
            else:
                claims.give_back(ahead)
        taken = 0
        with _no_collection():
            claims.settle(start)
            while claims.claimed == claims.settled:
                if not self._may_have_some():
                    return start
                taken = claims.claim(self._most(limit))
                if not taken:
                    return start
                self._count(taken)
        self._claimed(taken)
        self._go_ahead(start, limit, taken)
        return claims.claimed

    def end_with_what_is_there(self) -> None:
        """From now on claim as many messages as are ready at this moment, or blocked behind them, and no more."""
        assert self.claims.settled >= 0  # taken over: what an earlier driver left behind is ready again
        stats = self._store.stats(self._queue)
        self._left = stats.ready + stats.blocked

    def report(self) -> dict[str, Any]:
        """The last claim, the messages that are ready behind it, and for how long the oldest of them has been."""
        leasing = self._ahead is not None and not self._ahead.done()  # what it takes is neither here nor there now
        if not leasing:
            self._look_at_backlog()
        return {"claim": self.claims.claimed, "backlog": self._backlog, "oldest_age_seconds": self._oldest_age}

    def _claimed(self, taken: int) -> None:
        """Tell the backlog behind a new claim, before more is leased for the next one."""
        self._backlog = max(0, self._backlog - taken)
        self._look_at_backlog()

    def _look_at_backlog(self) -> None:
        now = time.monotonic()
        if now < self._report_at:
            return
        stats = self._store.stats(self._queue)
        self._report_at = now + max(_REPORT, (time.monotonic() - now) * _REPORT_SHARE)
        self._backlog = stats.ready + stats.blocked - self.claims.followers + self.claims.held_ahead
        self._oldest_age = round(stats.oldest_ready_age_seconds or 0.0, 3)

    def close(self) -> None:
        """Leave the open claim as it is, since Spark may have committed its batch, and give back what is none yet."""
        self._aside.shutdown()
        self._beside.shutdown()
        with suppress(QueueError):  # what it was will be said by whoever asks next, or nobody is left to hear it
            if self._ahead is not None:
                self.claims.give_back(self._ahead.result())
        self._keeper.close()
        self._waiter.close()
        self._store.close()

    def _go_ahead(self, done: int, limit: int | None, taken: int) -> None:
        """Begin with the claim after the one that Spark is about to read, if that had as many messages as it could."""
        most = self._most(limit)
        if limit is None or taken < limit or most == 0:
            return

        def work() -> Draft:
            with _no_collection():
                if self.claims.sets_free(done):
                    self.claims.settle(done)
                    prepared = self.claims.prepare(most)
                else:
                    prepared = self._settled_meanwhile(done, most)
            self._count(len(prepared.held))
            return prepared

        self._ahead = self._aside.submit(work)

    def _settled_meanwhile(self, done: int, most: int | None) -> Draft:
        """Settle and prepare at the same time: while the store does the one, the other is put together."""
        settling = self._beside.submit(self.claims.settle, done)
        try:
            prepared = self.claims.prepare(most)
        finally:
            failed = settling.exception()  # waits for it
        if failed is not None:
            self.claims.give_back(prepared)
            raise failed
        return prepared

    def _most(self, limit: int | None) -> int | None:
        if self._left is None:
            return limit
        return self._left if limit is None else min(self._left, limit)

    def _count(self, taken: int) -> None:
        if self._left is not None:
            self._left -= taken

    def _may_have_some(self) -> bool:
        if self._left is not None:
            return self._left > 0
        now = time.monotonic()
        if now < self._look_at:
            return False
        self._look_at = now + _LOOK
        if now < self._ask_at and not self._waiter.heard(0):
            return False
        self._ask_at = now + _ASK
        return True

    def _chunk_rows(self, size: int) -> int:
        options = self._options
        parts = options.num_partitions or max(options.min_partitions or 1, min(_PARTS, size // _PART_ROWS))
        return -(-size // parts)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Without garbage collection, which looks again and again at the many messages of a claim: a fifth of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
