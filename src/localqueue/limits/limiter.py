"""Holds messages to limits that are written in the store: each change is one commit, refused if another came first."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count
from typing import Literal, NamedTuple

from localqueue.errors import LeaseLost, RecordConflict
from localqueue.limits.book import Book, Entrant, Holder
from localqueue.limits.limits import Limited
from localqueue.limits.page import KIND, Page, is_held
from localqueue.stores.port import Changes, QueueStore, Record, RecordWrite, Settle

#: What became of a message that wanted to run. One that was refused has been given back.
Verdict = Literal["admitted", "refused", "lost"]

_AT_ONCE = 3  # conflicts after which a change waits a little before it is tried again
_LONGEST_PAUSE = 0.02
_SWEPT_AT_ONCE = 100
_LOCKS = 32


class Wish(NamedTuple):
    """A message that wants to run, or has run, and the limits it is under."""

    message: Entrant
    limited: Sequence[Limited]


class Look(NamedTuple):
    """How many may start now; if none, in how many seconds by its rate, or None when somebody must leave first."""

    free: int
    opens_in: float | None = None


class Limiter:
    """`commit` is how changes reach the store. A message that is parked comes back by itself after `catch_up` seconds,
    in case that nobody is left to bring it back."""

    def __init__(self, store: QueueStore, commit: Callable[[Changes], object], *, catch_up: float) -> None:
        self._store = store
        self._commit = commit
        self._catch_up = catch_up
        self._swept_to = ""
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    @contextlib.contextmanager
    def _turn(self, records: Iterable[str]) -> Iterator[None]:
        """Threads of one process do not run into each other's commits."""
        with contextlib.ExitStack() as stack:
            for n in sorted({hash(record) % _LOCKS for record in records}):
                stack.enter_context(self._locks[n])
            yield

    def change(
        self, entering: Sequence[Wish] = (), leaving: Sequence[Wish] = (), *, shared: Collection[str] = ()
    ) -> list[Verdict]:
        """Let messages leave, and those enter that there are places for, in one commit that gives back the others.

        A message that is refused by a limit that is named in `shared` keeps its place in the line: nothing of its queue
        could run in its stead.
        """
        gone: set[str] = set()
        records = {one.record for wish in (*entering, *leaving) for one in wish.limited}
        for tries in count():
            try:
                with self._turn(records):
                    verdicts = self._change(entering, leaving, shared, gone)
                break
            except RecordConflict:
                if tries >= _AT_ONCE:
                    time.sleep(random.uniform(0, _LONGEST_PAUSE))
            except LeaseLost as lost:  # of a message that entered, or that was to be brought back
                gone.add(lost.message_id)
        return [self._made_sure(wish, verdict) for wish, verdict in zip(entering, verdicts, strict=True)]

    def look(self, limited: Sequence[Limited], leaving: int = 0) -> Look:
        """Whether a message that is under these limits could start when so many have left; changes nothing."""
        free, opens_in = [], []
        for one in limited:
            page = Page.read(self._store, one)
            now = page.now
            if not leaving and page.book.is_full(one.limits):
                page.drop_dead(self._store)
            places = page.book.free(now, one.limits, leaving=leaving)
            free.append(places)
            if not places:
                opens_in.append(None if page.book.is_full(one.limits) else page.book.opens_at(now, one.limits) - now)
        known = [seconds for seconds in opens_in if seconds is not None]
        return Look(min(free), max(known) if known and len(known) == len(opens_in) else None)

    def sweep(self, seconds: float) -> None:
        """Remove records that say nothing any more, for at most so many seconds; the next call goes on from there."""
        end = time.monotonic() + seconds
        while True:
            records = self._store.records(KIND, after=self._swept_to, limit=_SWEPT_AT_ONCE)
            for record in records:
                self._swept_to = record.key
                self._tidy(record)
                if time.monotonic() > end:
                    return
            if len(records) < _SWEPT_AT_ONCE:
                self._swept_to = ""
                return

    def _change(
        self, entering: Sequence[Wish], leaving: Sequence[Wish], shared: Collection[str], gone: set[str]
    ) -> list[Verdict]:
        pages: dict[str, Page] = {}
        for one in (one for wish in (*leaving, *entering) for one in wish.limited):
            if one.record not in pages:
                pages[one.record] = Page.read(self._store, one)
        for message, limited in leaving:
            for one in limited:
                page = pages[one.record]
                page.changed |= page.book.leave(page.now, message.id, message.token)
        for page in pages.values():
            for name in gone:
                page.changed |= page.book.forsake(name)
        verdicts, settles = [], []
        for message, limited in entering:
            own = [pages[one.record] for one in limited]
            verdict, given_back = self._decide(message, own, [one.name in shared for one in limited], gone)
            verdicts.append(verdict)
            settles += given_back
        for page in pages.values():
            for queue, name, delay in page.promote():
                settles.append(Settle(queue, name, "release", None, delay, forgive=True))
        writes = [write for page in pages.values() for write in page.writes()]
        if writes or settles:
            self._commit(Changes(settle=settles, records=writes))
        return verdicts

    def _decide(
        self, message: Entrant, pages: Sequence[Page], shared: Sequence[bool], gone: set[str]
    ) -> tuple[Verdict, list[Settle]]:
        known = [page.book.holders[message.id] for page in pages if message.id in page.book.holders]
        if message.id in gone or any(holder.token > message.token for holder in known):
            return "lost", []
        for page in pages:
            if not page.has_place_for(message):
                page.drop_dead(self._store)
        refusing = [n for n, page in enumerate(pages) if not page.has_place_for(message)]
        if not refusing:
            for page in pages:
                page.book.admit(page.now, page.limits, message)
                page.changed = True
            return "admitted", []
        back = Settle(message.queue, message.id, "release", message.token, forgive=True)
        if any(shared[n] for n in refusing):
            return "refused", [back]
        for page in pages:
            page.changed |= page.book.forsake(message.id)
        page = pages[refusing[0]]
        delay = page.book.refuse(page.now, page.limits, message, self._catch_up)
        page.changed = True
        return "refused", [back, Settle(message.queue, message.id, "release", None, delay)]

    def _made_sure(self, wish: Wish, verdict: Verdict) -> Verdict:
        """A message that had been given back may have been brought back once more just before it entered."""
        message = wish.message
        if verdict != "admitted" or not message.turns:
            return verdict
        if is_held(self._store, message.queue, message.id, message.token, self._store.now()):
            return verdict
        self.change(leaving=[wish])
        return "lost"

    def _holds(self, holder: Holder, name: str, now: float) -> bool:
        return is_held(self._store, holder.queue, name, holder.token, now)

    def _tidy(self, record: Record) -> None:
        """Remove a record that is idle, and what holders have left that are gone."""
        now, book = self._store.now(), Book.decode(record.value)
        dead = [name for name in book.doubtful(now) if not self._holds(book.holders[name], name, now)]
        for name in dead:
            del book.holders[name]
        stranded = {} if book.holders or book.reserved else book.parked
        settles = [Settle(one.queue, name, "release", forgive=True) for name, one in stranded.items()]
        book.parked = {} if stranded else book.parked
        idle = book.is_idle(now)
        if not (dead or stranded or idle):
            return
        write = RecordWrite(KIND, record.key, None if idle else book.encode(), record.version, tell=bool(dead))
        with contextlib.suppress(RecordConflict):  # it is in use
            self._commit(Changes(settle=settles, records=[write], strict=False))
