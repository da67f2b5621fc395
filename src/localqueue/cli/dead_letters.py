"""`localqueue queue dead, requeue-dead`: what failed, and another chance for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.config import Config
from localqueue.cli.errors import CommandFailed
from localqueue.cli.events import LogEvents, log
from localqueue.cli.messages import Delay, QueueName
from localqueue.cli.output import Output, as_dict
from localqueue.cli.place import Place
from localqueue.cli.watch import Interval, Watch, again_and_again

if TYPE_CHECKING:
    from localqueue.message import QueueMessage
    from localqueue.queue import PersistentQueue

_PAGE = 500


def register(app: typer.Typer) -> None:
    add(app, dead)
    add(app, requeue_dead)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which dead letters to show."""

    min_attempts: int | None = None
    max_attempts: int | None = None
    error_contains: str | None = None
    failed_within: float | None = None

    def wants(self, message: QueueMessage[Any], now: float) -> bool:
        if self.min_attempts is not None and message.attempts < self.min_attempts:
            return False
        if self.max_attempts is not None and message.attempts > self.max_attempts:
            return False
        if self.failed_within is not None and (message.failed_at or 0.0) < now - self.failed_within:
            return False
        if self.error_contains is None:
            return True
        error = message.last_error or {}
        text = f"{error.get('type')} {error.get('message')} {error.get('stderr', '')}"
        return self.error_contains.casefold() in text.casefold()


def dead(
    queue: QueueName,
    place: Place,
    out: Output,
    limit: Annotated[int | None, typer.Option(min=0, help="How many at most.")] = None,
    watch: Watch = False,
    interval: Interval = 1.0,
    summary: Annotated[bool, typer.Option("--summary", help="Count them instead of listing them.")] = False,
    min_attempts: Annotated[int | None, typer.Option(help="Delivered at least this often.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="Delivered at most this often.")] = None,
    error_contains: Annotated[str | None, typer.Option(help="The error has this text, in any case.")] = None,
    failed_within: Annotated[float | None, typer.Option(help="Failed in the last SECONDS.")] = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove those older than the configured time.")] = False,
    prune_older_than: Annotated[float | None, typer.Option(help="Remove those that died SECONDS ago.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be removed.")] = False,
) -> None:
    """List dead letters in the order they died, or remove old ones."""
    wanted = Wanted(
        min_attempts=min_attempts,
        max_attempts=max_attempts,
        error_contains=error_contains,
        failed_within=failed_within,
    )
    if prune or dry_run or prune_older_than is not None:
        if limit is not None or watch or summary or wanted != Wanted():
            raise CommandFailed("pass --prune-older-than on its own; it cannot be combined with list or watch options")
        return _prune(queue, place, out, prune_older_than, dry_run)
    with place.look_at_queue(queue) as opened:

        def show() -> None:
            found = list(islice(_matching(opened, wanted), limit))
            if summary:
                out.facts(summary_of(found))
            elif out.as_json:
                out.data(list(map(as_dict, found)))
            else:
                rows = [{**as_dict(one), "error": _error_line(one)} for one in found]
                out.rows(rows, ("id", "attempts", "failed_at", "error", "value"), "no dead letters")

        again_and_again(show, watch=watch, interval=interval)


def _matching(queue: PersistentQueue[Any], wanted: Wanted) -> Iterator[QueueMessage[Any]]:
    now, last = queue.store.now(), None
    while True:
        page = queue.messages(state="dead", after=last, limit=_PAGE)
        yield from (message for message in page if wanted.wants(message, now))
        if len(page) < _PAGE:
            return
        last = page[-1].id


def _error_line(message: QueueMessage[Any]) -> str:
    error = message.last_error or {}
    return ": ".join(str(part) for part in (error.get("type"), error.get("message")) if part)


def summary_of(messages: Iterable[QueueMessage[Any]]) -> dict[str, Any]:
    """Dead letters counted by error, attempts and the worker that had them last."""
    listed = list(messages)
    summary: dict[str, Any] = {
        "count": len(listed),
        "by_error_type": dict(Counter((one.last_error or {}).get("type") or "unknown" for one in listed)),
        "by_attempts": dict(Counter(str(one.attempts) for one in listed)),
        "by_worker_id": dict(Counter(_last_worker(one) or "unknown" for one in listed)),
    }
    failed = [one.failed_at for one in listed if one.failed_at is not None]
    if failed:
        summary["failed_at"] = {"oldest": min(failed), "newest": max(failed)}
    return summary


def _last_worker(message: QueueMessage[Any]) -> str | None:
    for event in reversed(message.attempt_history):
        if event["type"] == "leased":
            worker: str | None = event.get("leased_by")
            return worker
    return None


def _prune(queue: str, place: Place, out: Output, older_than: float | None, dry_run: bool) -> None:
    age = older_than if older_than is not None else Config.load().dead_letter_ttl_seconds
    if age is None:
        raise CommandFailed("pass --prune-older-than or configure dead_letter_ttl_seconds")
    if dry_run:
        with place.look_at_queue(queue) as opened:
            removed = opened.count_dead_letters_older_than(older_than=age)
    else:
        with place.open_queue(queue) as opened:
            removed = opened.prune_dead_letters(older_than=age)
    out.facts({"dry_run": dry_run, "older_than": age, "would_delete" if dry_run else "deleted": removed})


def requeue_dead(
    queue: QueueName,
    place: Place,
    out: Output,
    id: Annotated[str | None, typer.Argument(metavar="[ID]", help="Id of the dead letter.")] = None,
    delay: Delay = 0.0,
    all_: Annotated[bool, typer.Option("--all", help="Every dead letter of the queue.")] = False,
    log_events: LogEvents = False,
) -> None:
    """Return dead letters to delivery with a fresh attempt budget."""
    if id is None and not all_:
        raise CommandFailed("pass a message id or use --all to requeue dead letters")
    if id is not None and all_:
        raise CommandFailed("pass either a message id or --all, not both")
    with place.open_queue(queue) as opened:
        if id is None:
            count = opened.requeue_all_dead(delay=delay)
            log(log_events, "queue.requeue", queue=queue, count=count, delay=delay or None)
            return out.facts({"requeued": count})
        if not opened.requeue_dead(id, delay=delay):
            raise CommandFailed(f"dead-letter message not found: {id}")
    log(log_events, "queue.requeue", queue=queue, id=id, delay=delay or None)
    out.facts({"id": id, "state": "requeued"})
