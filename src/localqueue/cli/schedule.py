"""`localqueue schedule`: messages that are put at times, kept in the store."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add, family
from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import CommandFailed, Mistake
from localqueue.cli.messages import QueueName, headers_of, read_value
from localqueue.cli.output import Output, as_dict
from localqueue.cli.place import Place

if TYPE_CHECKING:
    from localqueue.schedules import Schedule, ScheduleState
    from localqueue.stores.port import QueueStore

ScheduleName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the schedule.")]

_COLUMNS = ("name", "queue", "when", "next_at", "last_at", "paused", "value")


class Missed(StrEnum):
    """What becomes of ticks that passed while no scheduler ran."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


def commands() -> typer.Typer:
    app = family("Put messages at certain times.")
    add(app, add_, "add")
    add(app, list_, "list")
    for function in (remove, pause, resume, run):
        add(app, function)
    return app


def add_(
    queue: QueueName,
    name: ScheduleName,
    place: Place,
    out: Output,
    every: Annotated[str | None, typer.Option(metavar="TIME", help="A tick each TIME, e.g. 30s, 15m, 2h.")] = None,
    start_at: Annotated[
        str | None, typer.Option(metavar="WHEN", help="With --every: the first tick, e.g. 2030-01-01T09:00+01:00.")
    ] = None,
    cron: Annotated[str | None, typer.Option(help="Minute, hour, day, month and weekday: '0 9 * * 1-5'.")] = None,
    timezone: Annotated[str | None, typer.Option(help="With --cron: e.g. Europe/Berlin; UTC otherwise.")] = None,
    value: Annotated[str | None, typer.Option(help="The value to put; null without it.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The value is text, not JSON.")] = False,
    missed: Annotated[Missed, typer.Option(help="Ticks that passed while no scheduler ran.")] = Missed.ONCE,
    grace: Annotated[float, typer.Option(help="With --missed skip: seconds a tick may be late.")] = 60.0,
    priority: Annotated[int, typer.Option(help="Higher is delivered first.")] = 0,
    ttl: Annotated[float | None, typer.Option(help="Seconds after which it is not delivered any more.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be repeated.")] = None,
    dedupe_key: Annotated[str | None, typer.Option(help="Put nothing while a live message has this key.")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change a schedule of this name.")] = False,
) -> None:
    """Add a schedule to a queue: --every TIME or --cron EXPRESSION."""
    from localqueue.errors import ScheduleExists
    from localqueue.policies import PriorityOrdering
    from localqueue.schedules import Scheduler

    options = {
        "value": None if value is None else read_value(value, raw=raw),
        "missed": missed.value,
        "grace": grace,
        "priority": priority,
        "ttl": ttl,
        "headers": headers_of(header),
        "dedupe_key": dedupe_key,
    }
    schedule = _schedule(name, every, start_at, cron, timezone, options)
    with place.open_queue(queue, ordering_policy=PriorityOrdering() if priority else None) as opened:
        try:
            state = Scheduler(opened).add(schedule, replace=replace)
        except ScheduleExists:
            raise CommandFailed(f"schedule exists with other settings: {name}; pass --replace to change it") from None
    out.facts(_shown(state))


def _schedule(
    name: str, every: str | None, start_at: str | None, cron: str | None, timezone: str | None, options: dict[str, Any]
) -> Schedule:
    from localqueue.schedules import CronSchedule, PeriodicSchedule

    if (every is None) == (cron is None):
        raise Mistake("pass either --every or --cron")
    if cron is not None:
        if start_at is not None:
            raise Mistake("--start-at goes with --every")
        return CronSchedule(name, cron=cron, timezone=timezone or "UTC", **options)
    if timezone is not None:
        raise Mistake("--timezone goes with --cron")
    assert every is not None
    first = None if start_at is None else _moment(start_at)
    return PeriodicSchedule(name, every=seconds_of(every, "--every"), start_at=first, **options)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        raise Mistake(f"--start-at is a date and time like 2030-01-01T09:00+01:00, not {text!r}: {error}") from None


def list_(
    place: Place,
    out: Output,
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="Only those of this queue.")] = None,
) -> None:
    """List schedules with their last and next ticks."""
    from localqueue.queue import PersistentQueue
    from localqueue.schedules import Scheduler

    with place.open_store(read_only=True) as store:
        names = queues_with_schedules(store) if queue is None else [queue]
        states = [state for name in names for state in Scheduler(PersistentQueue(name, store=store)).list()]
    out.rows(map(_shown, states), _COLUMNS, "no schedules")


def queues_with_schedules(store: QueueStore) -> list[str]:
    from localqueue.schedules.stored import KIND, queue_of

    return sorted({queue_of(record) for record in store.records(KIND)})


def remove(queue: QueueName, name: ScheduleName, place: Place, out: Output) -> None:
    """Remove a schedule; messages it has put stay."""
    _change(queue, name, place, out, "remove", "removed")


def pause(queue: QueueName, name: ScheduleName, place: Place, out: Output) -> None:
    """Hold a schedule, in every process."""
    _change(queue, name, place, out, "pause", "paused")


def resume(queue: QueueName, name: ScheduleName, place: Place, out: Output) -> None:
    """Go on with the next tick from now."""
    _change(queue, name, place, out, "resume", "resumed")


def _change(queue: str, name: str, place: Place, out: Output, verb: str, state: str) -> None:
    from localqueue.schedules import Scheduler

    with place.open_queue(queue) as opened:
        if not getattr(Scheduler(opened), verb)(name):
            raise CommandFailed(f"schedule not found: {name}")
    out.facts({"queue": queue, "name": name, "state": state})


def run(
    place: Place,
    out: Output,
    queues: Annotated[
        list[str] | None, typer.Argument(metavar="[QUEUE]...", help="Only these; otherwise all with schedules.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Put what is due now, and end.")] = False,
) -> None:
    """Put messages when they are due, until SIGTERM or Ctrl-C. Any number of these may run at once."""
    from localqueue.cli.schedulers import Schedulers

    with place.open_store() as store:
        schedulers = Schedulers(store, queues or None)
        if once:
            out.rows(map(as_dict, schedulers.tick()), ("id", "queue", "value"), "nothing is due")
        else:
            schedulers.run()
            out.facts({"state": "stopped"})


def _shown(state: ScheduleState) -> dict[str, Any]:
    from localqueue.schedules import CronSchedule, PeriodicSchedule

    schedule = state.schedule
    when: dict[str, Any] = {}
    if isinstance(schedule, CronSchedule):
        when = {"type": "cron", "cron": schedule.cron, "timezone": schedule.timezone}
        when["when"] = f"{schedule.cron} {schedule.timezone}"
    elif isinstance(schedule, PeriodicSchedule):
        when = {"type": "periodic", "every": schedule.seconds, "start_at": schedule.start_at}
        when["when"] = f"every {schedule.seconds:g} s"
    return {
        "name": state.name,
        "queue": state.queue,
        **when,
        "value": schedule.value,
        "missed": schedule.missed,
        "grace": schedule.grace,
        "priority": schedule.priority,
        "ttl": schedule.ttl,
        "headers": dict(schedule.headers or {}),
        "dedupe_key": schedule.dedupe_key,
        "last_at": state.last_at,
        "next_at": state.next_at,
        "paused": state.paused,
    }
