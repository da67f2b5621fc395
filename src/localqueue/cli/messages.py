"""`localqueue queue add, pop, inspect, ack, release, dead-letter, cancel`: one message at a time."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import CommandFailed, Mistake
from localqueue.cli.events import LogEvents, log
from localqueue.cli.output import Output
from localqueue.cli.place import Place

QueueName = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="Id of the message.")]
Delay = Annotated[float, typer.Option(help="Seconds until it may be delivered.")]


def register(app: typer.Typer) -> None:
    add(app, put, "add")
    add(app, pop)
    add(app, inspect)
    add(app, ack)
    add(app, release)
    add(app, dead_letter)
    add(app, cancel)


def put(
    queue: QueueName,
    place: Place,
    out: Output,
    value: Annotated[str | None, typer.Option(help="The value; without it, stdin is read.")] = None,
    delay: Delay = 0.0,
    dedupe_key: Annotated[str | None, typer.Option(help="Store nothing while a live message has this key.")] = None,
    priority: Annotated[int, typer.Option(help="Higher is delivered first.")] = 0,
    ttl: Annotated[float | None, typer.Option(help="Seconds after which it is not delivered any more.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="May be repeated.")] = None,
    ordering_key: Annotated[str | None, typer.Option(help="Messages with one key are delivered one by one.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="The value is text, not JSON.")] = False,
    log_events: LogEvents = False,
) -> None:
    """Put a message into a queue."""
    from localqueue.policies import PerKeyFifoOrdering, PriorityOrdering

    if priority and ordering_key is not None:
        raise Mistake("pass either --priority or --ordering-key, not both: messages of one key keep their order")
    item = read_value(value, raw=raw)
    headers = headers_of(header)
    ordering = PerKeyFifoOrdering() if ordering_key is not None else PriorityOrdering() if priority else None
    with place.open_queue(queue, ordering_policy=ordering) as opened:
        message = opened.put(
            item,
            delay=delay,
            dedupe_key=dedupe_key,
            priority=priority,
            ttl=ttl,
            headers=headers,
            ordering_key=ordering_key,
        )
    log(log_events, "queue.enqueue", queue=queue, id=message.id, delay=delay or None, dedupe_key=dedupe_key)
    out.message(message)


def read_value(given: str | None, *, raw: bool) -> Any:
    """The value that was given, or the one on stdin: JSON, or with `raw` text."""
    text = given
    if text is None:
        if sys.stdin is None or sys.stdin.isatty():
            raise Mistake("missing value; pass an argument or pipe data on stdin")
        text = _read_stdin()
        if not text:
            raise Mistake("stdin did not contain a value")
    if raw:
        return text if given is not None else text.removesuffix("\n")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Mistake(f"value must be valid JSON unless --raw is passed: {error}") from None


def read_json(given: str, option: str) -> Any:
    """The value of an option that takes JSON, a file that holds it (@FILE) or stdin (-)."""
    text, where = given, option
    if given == "-":
        text, where = _read_stdin(), "stdin"
    elif given.startswith("@"):
        where = given[1:]
        try:
            text = Path(where).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Mistake(f"{option} can not be read from {where!r}: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Mistake(f"{where} must be valid JSON: {error}") from None


def _read_stdin() -> str:
    """All of stdin, as UTF-8 whatever the locale: a value must not depend on who put it."""
    stdin = sys.stdin
    try:
        return stdin.buffer.read().decode() if isinstance(stdin, io.TextIOWrapper) else stdin.read()
    except UnicodeDecodeError as error:
        raise Mistake(f"the value on stdin is not text: {error}") from None


def headers_of(given: list[str] | None) -> dict[str, str] | None:
    """Headers written as NAME=VALUE."""
    headers = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise Mistake(f"a header is written NAME=VALUE, not {text!r}")
        headers[name] = value
    return headers or None


def pop(
    queue: QueueName,
    place: Place,
    out: Output,
    lease_timeout: Annotated[float, typer.Option(help="Seconds until it is delivered again unless settled.")] = 30.0,
    worker_id: Annotated[str | None, typer.Option(help="Who holds the lease, for stats.")] = None,
    block: Annotated[bool, typer.Option("--block", help="Wait for a message.")] = False,
    timeout: Annotated[float | None, typer.Option(help="With --block: seconds to wait at most.")] = None,
    log_events: LogEvents = False,
) -> None:
    """Lease the next message; settle it later with ack, release or dead-letter."""
    from queue import Empty

    with place.open_queue(queue, lease_timeout=lease_timeout) as opened:
        try:
            message = opened.get_message(block, timeout, leased_by=worker_id)
        except Empty:
            raise CommandFailed("queue is empty") from None
    log(log_events, "queue.lease", queue=queue, id=message.id, attempt=message.attempts, worker_id=worker_id)
    out.message(message)


def inspect(queue: QueueName, id: MessageId, place: Place, out: Output) -> None:
    """Show a message without leasing it."""
    with place.open_queue(queue, read_only=True) as opened:
        message = opened.inspect(id)
    if message is None:
        raise CommandFailed(f"message not found: {id}")
    out.message(message)


def ack(queue: QueueName, id: MessageId, place: Place, out: Output, log_events: LogEvents = False) -> None:
    """Remove a message for good, whoever holds its lease."""
    _settle(queue, id, place, out, "ack", log_events)


def release(
    queue: QueueName, id: MessageId, place: Place, out: Output, delay: Delay = 0.0, log_events: LogEvents = False
) -> None:
    """Give a message back for delivery, whoever holds its lease."""
    _settle(queue, id, place, out, "release", log_events, delay=delay)


def dead_letter(queue: QueueName, id: MessageId, place: Place, out: Output, log_events: LogEvents = False) -> None:
    """Take a message out of delivery and keep it."""
    _settle(queue, id, place, out, "dead-letter", log_events)


def cancel(queue: QueueName, id: MessageId, place: Place, out: Output, log_events: LogEvents = False) -> None:
    """Take a message out of delivery because it is not wanted any more."""
    _settle(queue, id, place, out, "cancel", log_events)


def _settle(queue: str, id: str, place: Place, out: Output, action: str, log_events: bool, **options: Any) -> None:
    verb = action.replace("-", "_")
    with place.open_queue(queue) as opened:
        if not getattr(opened, verb)(id, **options):
            raise CommandFailed(f"message not found: {id}")
    log(log_events, f"queue.{verb}", queue=queue, id=id, delay=options.get("delay") or None)
    out.facts({"id": id, "state": action})
