"""`localqueue queue journal, events`: what the store remembers of every change."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import Mistake
from localqueue.cli.output import Output
from localqueue.cli.place import Place

if TYPE_CHECKING:
    from localqueue.events.journal import JournalEvent

_COLUMNS = ("seq", "at", "type", "queue", "message_id", "attempt", "worker", "error")


def register(app: typer.Typer) -> None:
    add(app, journal)
    add(app, events)


def journal(
    place: Place,
    out: Output,
    enable: Annotated[bool | None, typer.Option("--enable/--disable", help="Turn it on or off.")] = None,
    keep_seconds: Annotated[float | None, typer.Option(help="With --enable: how long entries are kept.")] = None,
    keep_events: Annotated[int | None, typer.Option(help="With --enable: about how many are kept.")] = None,
    prune_older_than: Annotated[float | None, typer.Option(min=0, help="Remove entries SECONDS old.")] = None,
) -> None:
    """Turn the journal of the store on or off, or show whether it is on."""
    if not enable and (keep_seconds is not None or keep_events is not None):
        raise Mistake("--keep-seconds and --keep-events go with --enable")
    looks = enable is None and prune_older_than is None
    with place.open_store(read_only=looks) as store:
        shown: dict[str, Any] = {}
        if enable:
            store.enable_journal(keep_seconds=keep_seconds, keep_events=keep_events)
        elif enable is not None:
            store.disable_journal()
        if prune_older_than is not None:
            shown["deleted"] = store.prune_events(older_than=prune_older_than)
        out.facts({"enabled": store.journal_enabled(), **shown})


def events(
    place: Place,
    out: Output,
    queue: Annotated[str | None, typer.Argument(metavar="[QUEUE]", help="Only those of this queue.")] = None,
    after: Annotated[int, typer.Option(min=0, help="Continue behind this entry, by its seq.")] = 0,
    limit: Annotated[int, typer.Option(min=0, help="How many at most.")] = 100,
) -> None:
    """List the entries of the journal, oldest first."""
    with place.open_store(read_only=True) as store:
        found = store.events(after, limit, queue)
    out.rows(map(_shown, found), _COLUMNS, "no events")


def _shown(event: JournalEvent) -> dict[str, Any]:
    shown = event._asdict()
    if isinstance(event.payload, bytes):
        shown["payload"] = base64.b64encode(event.payload).decode()
    return shown
