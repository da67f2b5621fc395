"""The driver's side of mode `subscribe`: where a stream begins, how far it can go, and what lies behind that."""

from __future__ import annotations

import time
from typing import Any

from localqueue.events.event import ENQUEUED
from localqueue.spark.options import OptionError, Options
from localqueue.spark.source.plan import EntriesLost
from localqueue.spark.streams.data_loss import DataLoss
from localqueue.stores.port import QueueStore
from localqueue.stores.url import open_store

_PAGE = 200
_LOOK = 2_000  # entries that one look for rows goes through at most
_SKIP = 5_000  # entries without a row after which the offset moves on all the same
_REPORT = 1.0
_CHECK = 10.0  # seconds between looks whether the journal is still on


class Follower:
    """A cursor over the journal of one store, which stays open. Spark asks it every few milliseconds."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._store = open_store(options.url, namespace=options.namespace, read_only=True)
        self._pinned: int | None = None
        self._clear = (0, 0)  # an offset, and the entry up to which there is no row behind it
        self._taken = 0
        self._check_at = self._report_at = 0.0
        self._reported: dict[str, Any] | None = None
        self._loss = DataLoss(EntriesLost, fails=options.fail_on_data_loss)

    def initial(self) -> int:
        """The entry before the first one that a new stream reads."""
        self._check_enabled()
        options = self._options
        first, last = self._store.journal_span()
        if options.starting_at is not None:
            return entry_before(self._store, options.starting_at)
        if isinstance(options.starting, int):
            return options.starting
        return first - 1 if options.starting == "earliest" else last

    def latest(self, start: int, limit: int | None) -> int:
        """The entry up to which a batch that begins behind `start` reads; `start` when it would have no row.

        A batch that has none is worth its price only now and then, so that what was skipped is not looked at again.
        """
        self._check_enabled()
        first, last = self._store.journal_span()
        self.check_kept(start, first, last)
        end = min(one for one in (last, self._pinned, self._options.ending) if isinstance(one, int))
        begin = max(start, first - 1)
        if not self._reads_every_entry():
            begin, found = self._first_row(max(begin, self._clear[1] if self._clear[0] == start else 0), end)
            self._clear = (start, begin)
            if not found:
                end = begin if begin - start >= _SKIP else start
        if limit is not None:
            end = min(end, begin + limit)
        self._taken = max(start, end)
        return self._taken

    def pin(self) -> None:
        """Go no further than to the last entry there is now."""
        self._pinned = self._store.journal_span()[1]

    def first_to_read(self, start: int) -> int:
        """The entry before the first that can be read behind `start`."""
        first, last = self._store.journal_span()
        self.check_kept(start, first, last)
        return max(start, first - 1)

    def report(self) -> dict[str, Any]:
        """The last entry, how many have not been read, and the age of the oldest of those."""
        now = time.monotonic()
        if self._reported is None or now >= self._report_at:
            self._report_at = now + _REPORT
            last = self._store.journal_span()[1]
            oldest = self._store.events(self._taken, 1) if last > self._taken else []
            age = max(0.0, self._store.now() - oldest[0].at) if oldest else 0.0
            backlog = max(0, last - self._taken)
            self._reported = {"seq": last, "backlog": backlog, "oldest_age_seconds": round(age, 3)}
        return self._reported

    def close(self) -> None:
        self._store.close()

    def check_kept(self, start: int, first: int, last: int) -> None:
        if start > last:
            self._lost(
                f"the stream is at entry {start} and the journal ends at {last}: it is that of another store, or the "
                "store was restored"
            )
        elif start + 1 < first:
            self._lost(
                f"entries {start + 1} to {first - 1} were pruned before they were read: let the journal keep more, "
                "store.enable_journal(keep_seconds=...)"
            )

    def _lost(self, what: str) -> None:
        where = f"the journal of namespace {self._options.namespace!r} at {self._store.url}"
        text = f'{where}: {what}. To go on without what is lost, set option("failOnDataLoss", "false")'
        self._loss.tell(what, text)

    def _check_enabled(self) -> None:
        now = time.monotonic()
        if now < self._check_at:
            return
        if not self._store.journal_enabled():
            raise OptionError(
                f"mode 'subscribe' follows the journal, which is off in namespace {self._options.namespace!r} at "
                f"{self._store.url}: turn it on with store.enable_journal() or `localqueue queue journal --enable`, or "
                "check the options 'url' and 'namespace'"
            )
        self._check_at = now + _CHECK

    def _reads_every_entry(self) -> bool:
        return self._options.queue is None and self._options.view == "events"

    def _first_row(self, at: int, end: int) -> tuple[int, bool]:
        """The entry before the first that is a row of this stream, and whether there may be one up to `end`."""
        until = at + _LOOK
        while at < min(end, until):
            page = self._store.events(at, _PAGE, self._options.queue)
            for entry in page:
                if entry.seq > end:
                    break
                if self._options.view == "events" or entry.type == ENQUEUED:
                    return entry.seq - 1, True
            at = min(end, page[-1].seq if len(page) == _PAGE else end)
        return at, at < end


def entry_before(store: QueueStore, moment: float) -> int:
    """The last entry before the first one that was written at `moment` or later."""
    first, last = store.journal_span()
    low, high = first, last + 1
    while low < high:
        middle = (low + high) // 2
        found = store.events(middle - 1, 1)
        if not found or found[0].at >= moment:
            high = middle
        else:
            low = found[0].seq + 1
    return low - 1
