"""The journal of a round: everything in it is what the reference model allows, and what it tells is what is left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from localqueue.contracts.replay import IllegalEntry, replay
from localqueue.events.journal import JournalEvent
from tests.chaos.client import name_of
from tests.chaos.history import Operation

_A_PAGE = 2_000
_MOST = 40  # entries that are shown


def replay_journal(
    store: Any, operations: Iterable[Operation], alive: Callable[[], None] = lambda: None
) -> list[list[str]]:
    """Where the journal of a store tells what can not have happened, or not what the store holds, each with the entries
    that show it. What its messages were put after is in the histories of clients. `alive` is called now and then."""
    entries = list(_read(store, alive))
    ids = {name_of(entry.payload or ""): entry.message_id for entry in entries if entry.type == "enqueued"}
    after = {
        ids[put.name]: [ids[name] for name in put.after if name in ids]
        for one in operations
        for put in one.puts
        if put.after and put.name in ids
    }
    try:
        return [[text] for text in replay(_watched(entries, alive), after).differences(store)]
    except IllegalEntry as error:
        return [[str(error), *_story(error.entry, entries, after)]]


def _read(store: Any, alive: Callable[[], None]) -> Iterator[JournalEvent]:
    last = 0
    while page := store.events(after=last, limit=_A_PAGE):
        alive()
        yield from page
        last = page[-1].seq


def _watched(entries: list[JournalEvent], alive: Callable[[], None]) -> Iterator[JournalEvent]:
    for n, entry in enumerate(entries):
        if n % _A_PAGE == 0:
            alive()
        yield entry


def _story(last: JournalEvent, entries: list[JournalEvent], after: dict[str, list[str]]) -> list[str]:
    """What the journal tells up to an entry of its message, those it was put after and those of its keys."""
    options = {one.message_id: one.options or {} for one in entries if one.type == "enqueued"}
    keys = {(last.queue, kind, options.get(last.message_id, {}).get(kind)) for kind in ("ordering_key", "dedupe_key")}

    def concerns(one: JournalEvent) -> bool:
        if one.message_id == last.message_id or one.message_id in after.get(last.message_id, ()):
            return True
        own = options.get(one.message_id, {})
        return any(key is not None and (one.queue, own.get(kind)) == (queue, key) for queue, kind, key in keys)

    shown = [one for one in entries if one.seq <= last.seq and concerns(one)]
    return [_line(one) for one in shown[-_MOST:]]


def _line(entry: JournalEvent) -> str:
    put = f" {name_of(entry.payload or '')} {entry.options or ''}" if entry.type == "enqueued" else ""
    who = "" if entry.worker is None else f" by {entry.worker}"
    what = f"{entry.type} {entry.message_id} attempt {entry.attempt}"
    return f"{entry.seq} at {entry.at:.6f} {entry.queue}: {what}{who}{put}"
