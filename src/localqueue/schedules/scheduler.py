"""`Scheduler`: puts a message for each tick of the schedules of a queue, exactly one in all processes together."""

from __future__ import annotations

import logging
from typing import Any, NamedTuple

from localqueue.errors import QueueFull, QueueStoreClosedError, QueueStoreError, RecordConflict
from localqueue.message import QueueMessage
from localqueue.queue import PersistentQueue
from localqueue.queue.admission import Admitted
from localqueue.queue.drafts import check_seconds
from localqueue.schedules.book import ScheduleBook
from localqueue.schedules.due import due
from localqueue.schedules.schedule import Schedule
from localqueue.schedules.stored import StoredSchedule
from localqueue.stores.wake import heed
from localqueue.workers.signals import StopFlag

log = logging.getLogger("localqueue.schedules")

Messages = list[QueueMessage[Any]]
Ticks = list[float]
Failures = list[Exception]

_MOST_A_COMMIT = 500
_PAUSE_WHEN_FULL = 0.25
_FIRST_PAUSE = 0.1


class _Pass(NamedTuple):
    messages: Messages
    failures: Failures
    full: bool


class Scheduler(ScheduleBook):
    """Keeps the schedules of one queue in the queue's store, and puts what is due.

    The messages of a tick and the note that it is done are one commit, so any number of schedulers on the same store
    put each tick once, and one that is killed loses none. A full queue keeps a tick waiting. `look_every` is how soon,
    in seconds, `run` sees what other processes changed. Times are those of the store's clock.
    """

    def __init__(self, queue: PersistentQueue[Any], *, look_every: float = 2.0) -> None:
        if not check_seconds("look_every", look_every) > 0:
            raise ValueError(f"look_every must be greater than zero, not {look_every!r}")
        super().__init__(queue)
        self._look_every = look_every
        self._changed = StopFlag()
        self._stopping = StopFlag()

    def tick(self) -> Messages:
        """Put what is due now and return the messages this call stored.

        A schedule that can not be put does not hold up the others; what went wrong is raised at the end.
        """
        messages, failures, _ = self._pass()
        if len(failures) == 1:
            raise failures[0]
        if failures:
            raise ExceptionGroup("several schedules could not be put", failures)
        return messages

    def run(self) -> None:
        """Put every tick when it is due, until `stop`. Errors are logged, and tried again a little later each time."""
        pause = _FIRST_PAUSE
        heed(getattr(self.queue.store, "clock", None), self._changed.set)
        while True:
            self._changed.clear()
            if self._stopping.is_set():
                return
            try:
                _, failures, full = self._pass()
                wait = self._until_next_tick()
            except QueueStoreClosedError:
                if self._stopping.is_set():
                    return
                raise
            except QueueStoreError as error:
                failures, full, wait = [error], False, 0.0
            for failure in failures:
                log.error("schedules of queue %r: %s", self.queue.name, failure, exc_info=failure)
            if failures:
                wait, pause = max(wait, pause), min(2 * pause, self._look_every)
            else:
                wait, pause = max(wait, _PAUSE_WHEN_FULL) if full else wait, _FIRST_PAUSE
            self._changed.wait(wait)

    def stop(self) -> None:
        """Have `run` return, in whichever thread it is; it does not run again. A signal handler may call this."""
        self._stopping.set()
        self._changed.set()

    def _until_next_tick(self) -> float:
        following = self.next_tick()
        if following is None:
            return self._look_every
        return min(max(following - self.queue.store.now(), 0.0), self._look_every)

    def _pass(self) -> _Pass:
        """Look at every schedule once: the messages, what went wrong, and whether the queue was full."""
        now = self.queue.store.now()
        messages: Messages = []
        failures: Failures = []
        full = False
        for record in self._records():
            try:
                messages += self._put_due(StoredSchedule.read(record), now)
            except QueueFull:
                full = True
            except QueueStoreError:
                raise
            except Exception as error:
                error.add_note(f"schedule {record.key.partition(':')[2]!r} of queue {self.queue.name!r}")
                failures.append(error)
        return _Pass(messages, failures, full)

    def _put_due(self, stored: StoredSchedule, now: float) -> Messages:
        progress = stored.progress
        if progress.paused or progress.next_at is None or progress.next_at > now:
            return []
        schedule = stored.schedule(self.queue.codec)
        most = _MOST_A_COMMIT
        while True:
            ticks, following = due(schedule, anchor=progress.anchor, next_at=progress.next_at, now=now, most=most)
            last_at = ticks[-1] if ticks else progress.last_at
            try:
                admitted = self._commit(schedule, ticks, stored.moved(next_at=following, last_at=last_at))
                break
            except QueueFull:
                if len(ticks) == 1:
                    raise
                most = len(ticks) // 2
            except RecordConflict:  # another scheduler was faster, or somebody changed the schedule
                return []
        if not ticks:
            return []
        announced = self.queue.desk.announce_all(admitted, [schedule.value] * len(ticks))
        return [
            message
            for message, enqueued in zip(announced, admitted.enqueued[:: admitted.copies], strict=True)
            if enqueued.outcome in ("stored", "diverted")
        ]

    def _commit(self, schedule: Schedule, ticks: Ticks, stored: StoredSchedule) -> Admitted:
        """Put the ticks and note how far the schedule has come, both or neither."""
        desk = self.queue.desk
        drafts = [desk.draft(schedule.value, **self._options(schedule, tick)) for tick in ticks]
        return desk.enqueue(drafts, [stored.write()])

    def _written(self) -> None:
        self._changed.set()
