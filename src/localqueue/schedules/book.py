"""The schedules of a queue, as records of its store: adding, changing and listing them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from localqueue.errors import PayloadError, RecordConflict, ScheduleExists
from localqueue.queue import PersistentQueue
from localqueue.queue.drafts import PutOptions
from localqueue.schedules.schedule import SCHEDULE_HEADER, TICK_HEADER, Schedule
from localqueue.schedules.stored import KIND, Progress, ScheduleState, StoredSchedule, key_of
from localqueue.stores.port import Changes, Record, RecordWrite

Records = list[Record]
States = list[ScheduleState]


class ScheduleBook:
    """Keeps the schedules of one queue in the queue's store, where every process sees them."""

    def __init__(self, queue: PersistentQueue[Any]) -> None:
        self.queue = queue

    def add(self, schedule: Schedule, *, replace: bool = False) -> ScheduleState:
        """Store a schedule. Adding one that is stored already, with the same settings, changes nothing.

        Other settings under the same name raise `ScheduleExists`, or with `replace` take their place: then the ticks
        are counted anew from now, and a schedule that is paused stays so.
        """
        self.queue.desk.draft(schedule.value, **self._options(schedule, self.queue.store.now()))
        while True:
            now = self.queue.store.now()
            progress = Progress(*schedule.start(now))
            new = StoredSchedule.of(schedule, self.queue.name, self.queue.codec, progress)
            found = self._find(schedule.name)
            if found is not None:
                if found.settings == new.settings:
                    return found.state(self.queue.codec)
                if not replace:
                    raise ScheduleExists(
                        f"queue {self.queue.name!r} has a schedule {schedule.name!r} with other settings; pass "
                        "replace=True to change it, or choose another name"
                    )
                new = new.moved(last_at=found.progress.last_at, paused=found.progress.paused).over(found)
            if self._write(new.write()):
                return new.state(self.queue.codec)

    def remove(self, name: str) -> bool:
        """Whether there was such a schedule; there is none any more. Messages that were put stay."""
        key = key_of(self.queue.name, name)
        while (found := self.queue.store.record(KIND, key)) is not None:  # also one that can not be read
            if self._write(RecordWrite(KIND, key, None, expect=found.version)):
                return True
        return False

    def pause(self, name: str) -> bool:
        """Hold a schedule, in every process; whether there is such a one."""
        while (found := self._find(name)) is not None:
            if found.progress.paused or self._write(found.moved(paused=True).write()):
                return True
        return False

    def resume(self, name: str) -> bool:
        """Go on with the next tick from now; ticks that passed during the pause are not put."""
        while (found := self._find(name)) is not None:
            progress, now = found.progress, self.queue.store.now()
            following = progress.next_at
            if following is not None and following <= now:
                following = found.schedule(self.queue.codec).next_after(now, progress.anchor)
            if not progress.paused or self._write(found.moved(paused=False, next_at=following).write()):
                return True
        return False

    def get(self, name: str) -> ScheduleState | None:
        found = self._find(name)
        return None if found is None else found.state(self.queue.codec)

    def list(self) -> States:
        """The schedules of the queue, by name."""
        return [StoredSchedule.read(record).state(self.queue.codec) for record in self._records()]

    def next_tick(self, name: str | None = None) -> float | None:
        """When the next tick of a schedule, or of any, is; one that is due already counts."""
        ticks = []
        for record in self._records():
            with suppress(PayloadError):  # one that can not be read has no ticks
                stored = StoredSchedule.read(record)
                if name in (None, stored.name) and not stored.progress.paused:
                    ticks.append(stored.progress.next_at)
        return min((tick for tick in ticks if tick is not None), default=None)

    def _options(self, schedule: Schedule, tick: float) -> PutOptions:
        at = datetime.fromtimestamp(tick, UTC).isoformat()
        dedupe_key = schedule.dedupe_key
        if dedupe_key is None and getattr(self.queue.delivery_policy, "requires_dedupe_key", False):
            dedupe_key = f"{schedule.name}@{at}"
        return {
            "priority": schedule.priority,
            "ttl": schedule.ttl,
            "headers": {**(schedule.headers or {}), SCHEDULE_HEADER: schedule.name, TICK_HEADER: at},
            "dedupe_key": dedupe_key,
            "ordering_key": schedule.ordering_key,
        }

    def _records(self) -> Records:
        prefix = key_of(self.queue.name, "")
        return [one for one in self.queue.store.records(KIND, after=prefix) if one.key.startswith(prefix)]

    def _find(self, name: str) -> StoredSchedule | None:
        record = self.queue.store.record(KIND, key_of(self.queue.name, name))
        return None if record is None else StoredSchedule.read(record)

    def _write(self, record: RecordWrite) -> bool:
        """Whether the record was still in the version it was read in; then it is written."""
        try:
            self.queue.store.commit(Changes(records=[record]))
        except RecordConflict:
            return False
        self._written()
        return True

    def _written(self) -> None:
        """Called after a schedule was changed here."""
