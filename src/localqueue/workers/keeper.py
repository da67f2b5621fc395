"""Keeps what a worker holds: renews leases, sends heartbeats, tells progress, notices handlers that take too long and
messages that were cancelled."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from localqueue.errors import QueueError
from localqueue.events.event import RENEWED
from localqueue.jobs import progress
from localqueue.message import QueueMessage
from localqueue.stores.port import CANCELLED, Changes, Lease
from localqueue.workers.alarm import Alarm
from localqueue.workers.job import Job

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.workers.ledger import Ledger

log = logging.getLogger("localqueue.workers")

_HEARTBEAT = 5.0
_SHORTEST_TICK = 0.02
_TELL_EVERY = 0.25  # seconds between what is told of the progress of handlers
_LISTEN_AFTER = 0.5  # a message that is held for less ends before anybody could cancel it
_LOOK_AGAIN = 0.25  # for a message that was cancelled after it was leased and before it was held


class Held:
    """A leased message in a worker's hands, waiting or running."""

    __slots__ = ("deadline", "job", "on_timeout", "renew_at", "since")

    def __init__(self, job: Job, since: float, renew_at: float) -> None:
        self.job = job
        self.since = since
        self.renew_at = renew_at
        self.deadline: float | None = None
        self.on_timeout: Callable[[], None] | None = None


class Keeper:
    """One thread for all leases of one worker.

    A lasting one runs from `start` to `close`; any other starts with a message and ends when it holds none.
    """

    def __init__(
        self,
        queue: PersistentQueue[Any],
        *,
        worker_id: str | None = None,
        on_lost: Callable[[Job], None] | None = None,
        on_beat: Callable[[], None] | None = None,
        ledger: Ledger | None = None,
        lasting: bool = True,
    ) -> None:
        self._queue = queue
        self._worker_id = worker_id
        self._on_lost = on_lost
        self._on_beat = on_beat
        self._ledger = ledger
        self._lasting = lasting
        self._renews = not queue.desk.consumes  # then there is no lease to lose
        self._renew_after = queue.lease_timeout / 3
        self._held: dict[tuple[str, int], Held] = {}  # by delivery: a message given back may be here again already
        self._stirred = threading.Condition()
        self._counting = threading.Lock()
        self._untold = 0  # leases that no heartbeat has told of yet
        self._wakes_at = 0.0
        self._thread: threading.Thread | None = None
        self._alarm: Alarm | None = None
        self._looks: list[float] = []  # when to look at all leases, because something was cancelled
        self._telling: set[Job] = set()  # whose progress is not written yet
        self._tell_at = 0.0
        self._closed = False

    def start(self) -> None:
        with self._stirred:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="localqueue-keeper", daemon=True)
                self._thread.start()

    def hold(self, message: QueueMessage[Any]) -> Held:
        """Keep the lease of a message until `drop`."""
        now = time.monotonic()
        tell = self._note_progress if self._renews else None
        held = Held(Job(self._queue, message, now, tell), now, now + self._renew_after)
        with self._counting:
            self._untold += 1
        if self._lasting:
            self._held[message.id, message.attempts] = held
        else:
            with self._stirred:
                self._held[message.id, message.attempts] = held
            self.start()
        return held

    def drop(self, message: QueueMessage[Any]) -> None:
        self._held.pop((message.id, message.attempts), None)

    def watch(self, held: Held, timeout: float, on_timeout: Callable[[], None]) -> None:
        """Call `on_timeout` when the message is still held and not `unwatch`ed after `timeout` seconds."""
        with self._stirred:
            held.on_timeout = on_timeout
            held.deadline = time.monotonic() + timeout
            if held.deadline < self._wakes_at:
                self._stirred.notify()

    def unwatch(self, held: Held) -> bool:
        """Stop the clock; False when the time was already up."""
        with self._stirred:
            in_time = held.on_timeout is not None
            held.on_timeout = held.deadline = None
            return in_time

    def holding(self) -> list[QueueMessage[Any]]:
        return [held.job.message for held in list(self._held.values())]

    def close(self) -> None:
        with self._stirred:
            self._closed = True
            self._stirred.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        if self._untold:
            self._heartbeat()

    def _run(self) -> None:
        next_beat = 0.0
        while True:
            now = time.monotonic()
            beat = now >= next_beat
            if beat:
                next_beat = now + _HEARTBEAT
            self._tick(now, beat)
            with self._stirred:
                if self._closed or not (self._lasting or self._held):
                    self._thread = None
                    alarm, self._alarm = self._alarm, None
                    break
                self._wakes_at = self._next_tick(next_beat)
                self._stirred.wait(max(self._wakes_at - time.monotonic(), _SHORTEST_TICK))
        if alarm is not None:
            alarm.close()

    def _tick(self, now: float, beat: bool) -> None:
        """Leases first. Whatever goes wrong, the thread goes on: without it every lease would be lost."""
        duties: list[Callable[[], None]] = [lambda: self._renew(now), lambda: self._expire(now)]
        duties += [lambda: self._tell_progress(now), lambda: self._listen(now)]
        if beat:
            duties.append(self._beat)
        for duty in duties:
            try:
                duty()
            except Exception:
                log.exception("the leases of queue %r", self._queue.name)

    def _next_tick(self, next_beat: float) -> float:
        now = time.monotonic()
        tick = min(next_beat, now + self._renew_after / 2)
        if self._alarm is None and self._renews:
            tick = min(tick, now + _LISTEN_AFTER)
        if self._looks:
            tick = min(tick, self._looks[0])
        if self._telling:
            tick = min(tick, self._tell_at)
        for held in list(self._held.values()):
            tick = min(tick, held.renew_at if self._renews else tick, tick if held.deadline is None else held.deadline)
        return tick

    def _beat(self) -> None:
        if self._on_beat is not None:
            self._on_beat()
        self._heartbeat()

    def _heartbeat(self) -> None:
        if self._worker_id is None:
            return
        with self._counting:
            leases, self._untold = self._untold, 0
        try:
            self._queue.store.heartbeat(self._queue.name, self._worker_id, leases=leases)
        except QueueError as error:
            with self._counting:
                self._untold += leases
            log.warning("no heartbeat for queue %r: %s", self._queue.name, error)

    def _renew(self, now: float) -> None:
        if not self._renews:
            return
        with self._stirred:
            at_once = bool(self._looks) and self._looks[0] <= now
            self._looks = [look for look in self._looks if look > now]
        due = [held for held in list(self._held.values()) if (at_once or held.renew_at <= now) and not held.job.lost]
        if not due:
            return
        leases = [Lease(self._queue.name, held.job.message.id, held.job.message.attempts) for held in due]
        try:
            renewed = self._queue.store.renew(leases, timeout=self._queue.lease_timeout)
        except QueueError as error:  # tried again at the next tick: the lease is longer than that
            log.warning("could not renew %d leases of queue %r: %s", len(leases), self._queue.name, error)
            return
        for held, until in zip(due, renewed, strict=True):
            if until is not None:
                held.renew_at = now + self._renew_after
                self._queue.emit(RENEWED, held.job.message, leased_until=until)
                if self._ledger is not None:
                    self._ledger.renewed(held.job.message)
            elif (held.job.message.id, held.job.message.attempts) in self._held:
                self._lose(held.job)

    def _lose(self, job: Job) -> None:
        message, known = job.message, None
        try:
            known = self._queue.store.get(self._queue.name, message.id)
            if known is None and job.ended:
                return  # it was acked just now, and is about to be dropped
        except QueueError:
            pass
        job.lose()
        if known is not None and known.state == CANCELLED:
            log.info("message %s of queue %r was cancelled while it was running", message.id, self._queue.name)
        else:
            log.warning("lost the lease of message %s of queue %r", message.id, self._queue.name)
        if self._on_lost is not None:
            self._on_lost(job)

    # cancellation: whoever holds something for a while hears of it, and finds its lease lost when it renews it

    def _listen(self, now: float) -> None:
        if self._alarm is not None or not self._renews:
            return
        if any(now - held.since >= _LISTEN_AFTER for held in list(self._held.values())):
            self._alarm = Alarm(self._queue, self._look_at_leases)

    def _look_at_leases(self) -> None:
        now = time.monotonic()
        with self._stirred:
            self._looks = [now, now + _LOOK_AGAIN]
            self._stirred.notify()

    # progress

    def _note_progress(self, job: Job) -> None:
        """Have it written soon, all that was told at once."""
        with self._stirred:
            self._telling.add(job)
            if self._tell_at < self._wakes_at:
                self._stirred.notify()

    def _tell_progress(self, now: float) -> None:
        if not self._telling or now < self._tell_at:
            return
        self._tell_at = now + _TELL_EVERY
        with self._stirred:
            telling, self._telling = self._telling, set()
        running = [job for job in telling if not (job.ended or job.lost)]
        writes = [progress.written(job.message, job.told) for job in running if job.told is not None]
        if not writes:
            return
        try:
            self._queue.desk.commit(Changes(records=writes))
        except QueueError as error:
            log.warning("could not tell the progress of %d messages: %s", len(writes), error)
            with self._stirred:
                self._telling |= telling

    def _expire(self, now: float) -> None:
        late: list[Callable[[], None]] = []
        with self._stirred:
            for held in list(self._held.values()):
                if held.deadline is not None and held.deadline <= now and held.on_timeout is not None:
                    late.append(held.on_timeout)
                    held.on_timeout = held.deadline = None
        for on_timeout in late:
            try:
                on_timeout()
            except Exception:
                log.exception("queue %r: a handler took too long", self._queue.name)
