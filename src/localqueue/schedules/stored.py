"""A schedule as a record of the queue's store: its settings, and how far it has come."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

from localqueue.errors import PayloadError, QueueStoreVersionError
from localqueue.policies import Codec
from localqueue.policies._limits import LONGEST
from localqueue.policies.codec import JSON_CODEC
from localqueue.schedules.cron import CronSchedule
from localqueue.schedules.schedule import PeriodicSchedule, Schedule
from localqueue.stores.kept_error import shown
from localqueue.stores.port import Record, RecordWrite

KIND = "schedule"
_FORMAT = 1
_LATEST = 4 * LONGEST
_TYPES: dict[str, type[Schedule]] = {"periodic": PeriodicSchedule, "cron": CronSchedule}
_TYPE_OF = {kind: name for name, kind in _TYPES.items()}


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleState:
    """A stored schedule, when it was last put and when its next tick is; None while it is paused or has no more."""

    schedule: Schedule
    queue: str
    last_at: float | None
    next_at: float | None
    paused: bool

    @property
    def name(self) -> str:
        return self.schedule.name


class Progress(NamedTuple):
    """How far a schedule has come. `anchor` is what its ticks are counted from."""

    anchor: float
    next_at: float | None
    last_at: float | None = None
    paused: bool = False

    def check(self) -> None:
        """ValueError for times that are none."""
        for moment in (self.anchor, *(one for one in (self.next_at, self.last_at) if one is not None)):
            if type(moment) not in (int, float) or not abs(moment) <= _LATEST:
                raise ValueError(f"{moment!r} is no time")


def key_of(queue: str, name: str) -> str:
    return f"{queue}:{name}"  # no queue has a colon in its name


def queue_of(record: Record) -> str:
    return record.key.partition(":")[0]


@contextmanager
def _readable(queue: str, name: str) -> Iterator[None]:
    """`PayloadError` for what no scheduler has written."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise PayloadError(
            f"schedule {name!r} of queue {queue!r} can not be read ({shown(error)}): remove it and add it again"
        ) from error


@dataclass(frozen=True, slots=True)
class StoredSchedule:
    """One record: the settings as they are stored, with the value still encoded, and the version to expect."""

    queue: str
    name: str
    settings: dict[str, Any]
    progress: Progress
    version: int = 0

    @classmethod
    def of(cls, schedule: Schedule, queue: str, codec: Codec, progress: Progress) -> StoredSchedule:
        settings = {
            field.name: getattr(schedule, field.name)
            for field in fields(schedule)
            if field.name not in ("name", "value", "headers")
        }
        payload = codec.encode(schedule.value)
        settings["type"] = _TYPE_OF[type(schedule)]
        settings["headers"] = dict(schedule.headers) if schedule.headers else None
        settings["codec"] = codec.name
        if isinstance(payload, str):
            settings["text"] = payload
        else:
            settings["base64"] = base64.b64encode(payload).decode()
        return cls(queue, schedule.name, settings, progress)

    @classmethod
    def read(cls, record: Record) -> StoredSchedule:
        queue, _, name = record.key.partition(":")
        with _readable(queue, name):
            stored = json.loads(record.value)
            is_known = stored["format"] == _FORMAT and stored["settings"]["type"] in _TYPES
        if not is_known:
            raise QueueStoreVersionError(
                f"schedule {name!r} of queue {queue!r} was written by a newer localqueue; upgrade this one"
            )
        with _readable(queue, name):
            progress = Progress(**stored["progress"])
            progress.check()
            return cls(queue, name, stored["settings"], progress, record.version)

    def write(self) -> RecordWrite:
        stored = {"format": _FORMAT, "settings": self.settings, "progress": self.progress._asdict()}
        return RecordWrite(KIND, key_of(self.queue, self.name), json.dumps(stored).encode(), expect=self.version)

    def moved(self, **progress: Any) -> StoredSchedule:
        return replace(self, progress=self.progress._replace(**progress))

    def over(self, other: StoredSchedule) -> StoredSchedule:
        """This one in the place of the other."""
        return replace(self, version=other.version)

    def schedule(self, codec: Codec) -> Schedule:
        """The schedule as it was added; its value is read with the codec of the queue."""
        settings = dict(self.settings)
        with _readable(self.queue, self.name):
            kind, name = _TYPES[settings.pop("type")], settings.pop("codec")
            payload = settings.pop("text") if "text" in settings else base64.b64decode(settings.pop("base64"))
        if name not in (codec.name, JSON_CODEC.name):
            raise PayloadError(
                f"schedule {self.name!r} was added with codec {name!r} and queue {self.queue!r} writes {codec.name!r}; "
                "open the queue with that codec=, or add the schedule again with replace=True"
            )
        reader = codec if name == codec.name else JSON_CODEC
        with _readable(self.queue, self.name):
            return kind(self.name, value=reader.decode(payload), **settings)

    def state(self, codec: Codec) -> ScheduleState:
        return ScheduleState(
            schedule=self.schedule(codec),
            queue=self.queue,
            last_at=self.progress.last_at,
            next_at=None if self.progress.paused else self.progress.next_at,
            paused=self.progress.paused,
        )
