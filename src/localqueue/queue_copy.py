"""Moving a queue to another store, or to another queue: `copy_queue`.

Every message goes over in the same commit as a note of it (a record of the target, by the id the message had), so that
whatever happens in between, a second call neither loses nor doubles one, even when the target has been consumed
meanwhile.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from localqueue.errors import IdTaken, QueueError, RecordConflict
from localqueue.stores.port import (
    BLOCKED,
    INFLIGHT,
    Changes,
    NewMessage,
    QueueStore,
    Record,
    RecordWrite,
    Settle,
    StoredMessage,
)
from localqueue.stores.rules import ENDED

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

KIND = "copied"
_PAGE = 300

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What `copy_queue` did.

    `copied` messages are new in the target, `by_state` says in which states; `already_there` had been copied before.
    `duplicates` were not stored because a live message of the target has their dedupe key and stands for them.
    """

    copied: int = 0
    already_there: int = 0
    duplicates: int = 0
    by_state: Mapping[str, int] = field(default_factory=dict)


def copy_queue(
    source: PersistentQueue[Any], target: PersistentQueue[Any], *, progress: Progress | None = None
) -> CopyReport:
    """Copy all messages of one queue into another, in any store.

    They keep everything but their ids: payload and codec as stored, times, order, priority, headers, keys, runs,
    attempts, history, and the state of those that have left delivery; `after` is that of the copies. The source is
    paused and stays so, its messages stay too: stop the producers, copy, switch to the target, and purge the source
    when all is well. Leased messages are not copied: while there are any, this raises `QueueError`.

    It can be called again at any time, after a crash or to fetch what was put since, and copies only what is missing.
    Messages that wait for a message of another queue need that to be copied first, into the same store; if it is not,
    all others are copied and this raises `QueueError`. `progress` is called after each page with the number of
    messages looked at and the number there are.
    """
    for queue in (source, target):
        if not hasattr(queue, "store") or not hasattr(queue, "name"):
            raise TypeError(f"copy_queue copies between two PersistentQueue, not {queue!r}")
    return _Copy(source.store, source.name, target.store, target.name, progress or (lambda done, total: None)).run()


def forget_copies(target: PersistentQueue[Any]) -> int:
    """Remove the notes that `copy_queue` left in the target's store about this queue; how many there were.

    To be called when the source is gone: another `copy_queue` from it would copy everything anew.
    """
    store, removed, after = target.store, 0, ""
    while page := store.records(KIND, after=after, limit=_PAGE):
        after = page[-1].key
        ours = [record.key for record in page if _Note.of(record).queue == target.name]
        store.commit(Changes(records=[RecordWrite(KIND, key, None) for key in ours]))
        removed += len(ours)
    return removed


class _Note(NamedTuple):
    """Where the copy of a message is."""

    queue: str
    id: str

    def pack(self) -> bytes:
        return json.dumps(self, separators=(",", ":")).encode()

    @staticmethod
    def of(record: Record) -> _Note:
        return _Note(*json.loads(record.value))


class _Left(NamedTuple):
    """A message that can not be copied yet, and the one it waits for."""

    message: str
    upstream: str
    queue: str | None


class _Copy:
    def __init__(self, source: QueueStore, name: str, target: QueueStore, into: str, progress: Progress) -> None:
        self.source = source
        self.name = name
        self.target = target
        self.into = into
        self._progress = progress
        self.states: Counter[str] = Counter()
        self._already = 0
        self.duplicates = 0
        self.left: dict[str, _Left] = {}

    def run(self) -> CopyReport:
        self._refuse_the_same_queue()
        self.source.pause(self.name)
        self._end_leases()
        first = True
        while self._pass(first):
            first = False
        if self.left:
            raise QueueError(self._what_is_left())
        return CopyReport(self.states.total(), self._already, self.duplicates, dict(sorted(self.states.items())))

    def _refuse_the_same_queue(self) -> None:
        same = self.source is self.target and self.name == self.into
        if not same and self.name == self.into:
            # Ids are good in one namespace only: who knows a message of the source by its id is the source.
            first = self.source.scan(self.name, limit=1)
            same = bool(first) and self.target.get(self.into, first[0].id) is not None
        if same:
            raise ValueError(f"queue {self.name!r} can not be copied into itself; give another store or queue")

    def _end_leases(self) -> None:
        """Take leases that have run out from whoever held them, so that nobody settles here what is copied there."""
        held = self.source.stats(self.name).inflight
        if held:
            raise QueueError(
                f"queue {self.name!r} can not be copied: {held} of its messages {'is' if held == 1 else 'are'} leased. "
                "It is paused now, so let its workers finish, or their leases run out, and call again; resume() "
                "undoes the pause"
            )
        for page in _pages(lambda after: self.source.scan(self.name, state=INFLIGHT, after=after, limit=_PAGE)):
            settles = [Settle(self.name, message.id, "release", message.attempts) for message in page]
            self.source.commit(Changes(settle=settles, strict=False))

    def _pass(self, first: bool) -> bool:
        """Copy what has not been copied; whether there was any."""
        found, done = False, 0
        total = self.source.stats(self.name).total
        self.left.clear()
        for page in _pages(lambda after: self.source.scan(self.name, after=after, limit=_PAGE)):
            copied = self._copy_page(page)
            found |= copied > 0
            done += len(page)
            if first:
                self._already += len(page) - copied - sum(message.id in self.left for message in page)
            self._progress(done, max(total, done))
        return found

    def _copy_page(self, page: Sequence[StoredMessage]) -> int:
        while True:
            notes = self._notes(page[0].id, page[-1].id)
            batch = _Batch(self, notes)
            for message in page:
                batch.add(message)
            try:
                return batch.commit()
            except (IdTaken, RecordConflict):  # somebody else minted the same id, or copies the same queue
                continue

    def _notes(self, first: str, last: str) -> dict[str, _Note]:
        """The copies there are of the messages from one id to another."""
        found: dict[str, _Note] = {}
        for page in _pages(lambda after: self.target.records(KIND, after=after or first[:-1], limit=_PAGE)):
            found |= {record.key: _Note.of(record) for record in page if first <= record.key <= last}
            if page[-1].key > last:
                break
        return found

    def _what_is_left(self) -> str:
        left = next(iter(self.left.values()))
        others = "" if len(self.left) == 1 else f", as do {len(self.left) - 1} others"
        if left.queue is None:
            return (
                f"message {left.message} of queue {self.name!r} was not copied: it waits for message {left.upstream}, "
                f"which was removed without being acked{others}. Cancel it, or ack it, and call again"
            )
        return (
            f"message {left.message} of queue {self.name!r} was not copied: it waits for message {left.upstream} of "
            f"queue {left.queue!r}, which is not copied{others}. Everything else was; copy queue {left.queue!r} into "
            "the same store and call again"
        )


class _Batch:
    """The messages of one commit: those of a page that are not in the target yet, and those they wait for."""

    def __init__(self, copy: _Copy, notes: dict[str, _Note]) -> None:
        self._copy = copy
        self._notes = notes
        self._chosen: dict[str, tuple[StoredMessage, list[str]]] = {}

    def add(self, message: StoredMessage) -> bool:
        """Whether the message will be in the target after the commit, with everything it waits for."""
        copy = self._copy
        if message.id in self._chosen:
            return True
        if message.id in self._notes:
            self._require_the_same_target(message)
            return True
        if message.state == INFLIGHT:
            raise QueueError(
                f"message {message.id} of queue {copy.name!r} was leased during the copy: the queue was resumed. "
                "What was copied is safe; keep it paused and call again"
            )
        after: list[str] = []
        if message.waiting_on:
            for upstream in copy.source.upstream(copy.name, message.id):
                left = self._require(upstream, message)
                if left is None:
                    after.append(upstream)
                elif message.state not in ENDED or left.queue is not None:
                    copy.left[message.id] = left
                    return False
        self._chosen[message.id] = (message, after)
        return True

    def _require_the_same_target(self, message: StoredMessage) -> None:
        into = self._notes[message.id].queue
        if into != self._copy.into:
            raise ValueError(
                f"message {message.id} of queue {self._copy.name!r} was copied into queue {into!r} of that store "
                f"before, so it is not copied into {self._copy.into!r} too; see forget_copies()"
            )

    def _require(self, upstream: str, message: StoredMessage) -> _Left | None:
        """Make sure that the upstream message is in the target too; None when it will be."""
        copy = self._copy
        if upstream in self._notes or upstream in self._chosen:
            return None
        note = copy.target.record(KIND, upstream)
        if note is not None:
            self._notes[upstream] = _Note.of(note)
            return None
        here = copy.source.get(copy.name, upstream)
        if here is not None:
            return None if self.add(here) else copy.left[here.id]._replace(message=message.id)
        others = (name for name in copy.source.queues() if copy.source.get(name, upstream) is not None)
        return _Left(message.id, upstream, next(others, None))

    def commit(self) -> int:
        if not self._chosen:
            return 0
        copy = self._copy
        chosen = [self._chosen[message_id] for message_id in sorted(self._chosen)]
        ids = dict(zip(sorted(self._chosen), copy.target.mint(len(chosen)), strict=True))
        # Who holds an ordering key goes before those who are blocked behind it, whatever their ids.
        chosen.sort(key=lambda one: one[0].state == BLOCKED)
        known = {old: note.id for old, note in self._notes.items()} | ids
        drafts = [
            _draft(message, ids[message.id], copy.into, tuple(known[upstream] for upstream in after))
            for message, after in chosen
        ]
        notes = [RecordWrite(KIND, old, _Note(copy.into, new).pack(), expect=0) for old, new in ids.items()]
        enqueued = copy.target.commit(Changes(enqueue=drafts, records=notes, keep_ids=True)).enqueued
        stands_for = []
        for (message, _), done in zip(chosen, enqueued, strict=True):
            if done.existing is None:
                copy.states[done.state] += 1
            else:
                copy.duplicates += 1
                stands_for.append(RecordWrite(KIND, message.id, _Note(copy.into, done.existing.id).pack()))
        if stands_for:
            copy.target.commit(Changes(records=stands_for))
        return len(chosen)


def _draft(message: StoredMessage, new_id: str, queue: str, after: tuple[str, ...]) -> NewMessage:
    return NewMessage(
        new_id,
        queue,
        message.payload,
        message.codec,
        priority=message.priority,
        dedupe_key=message.dedupe_key,
        ordering_key=message.ordering_key,
        headers=message.headers,
        run_id=message.run_id,
        after=after,
        past=message,
    )


def _pages(read: Callable[[str | None], Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Pages of messages or records until one is empty; `read` gets the key of the last one."""
    after: str | None = None
    while page := read(after):
        yield page
        after = page[-1].key if isinstance(page[-1], Record) else page[-1].id
