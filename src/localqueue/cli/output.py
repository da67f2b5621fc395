"""Results on stdout: JSON for programs, tables for people."""

from __future__ import annotations

import errno
import json as jsonlib
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import shared
from localqueue.cli.errors import ReaderGone

if TYPE_CHECKING:
    from localqueue.message import QueueMessage

_MESSAGE_KEYS = (
    "id",
    "value",
    "queue",
    "state",
    "attempts",
    "created_at",
    "available_at",
    "leased_until",
    "leased_by",
    "last_error",
    "failed_at",
    "attempt_history",
    "dedupe_key",
    "priority",
    "headers",
    "ordering_key",
    "expires_at",
    "run_id",
    "waiting_on",
)


@shared
class Output:
    """How a command shows its result: as JSON when asked or when stdout is not a terminal, else for reading."""

    def __init__(
        self,
        *,
        json: Annotated[
            bool | None,
            typer.Option("--json/--no-json", help="JSON or text; without either, JSON unless stdout is a terminal."),
        ] = None,
    ) -> None:
        self.as_json = json if json is not None else not sys.stdout.isatty()

    def data(self, data: Any) -> None:
        """The result as JSON, whatever the reader."""
        write(json_text(data))

    def facts(self, facts: Mapping[str, Any], title: str | None = None) -> None:
        """Names and values."""
        if self.as_json:
            return self.data(facts)
        from localqueue.cli import tables

        tables.facts(facts, title)

    def rows(self, rows: Iterable[Mapping[str, Any]], columns: Iterable[str], nothing: str) -> None:
        """A table of some of the keys; JSON has them all. `nothing` is said when there is no row."""
        listed = list(rows)
        if self.as_json:
            return self.data(listed)
        from localqueue.cli import tables

        tables.rows(listed, list(columns), nothing)

    def message(self, message: QueueMessage[Any], **changed: Any) -> None:
        """One message. `changed` replaces what is shown."""
        self.facts({**as_dict(message), **changed})


def as_dict(message: QueueMessage[Any]) -> dict[str, Any]:
    """A message as the command shows it."""
    return {key: _shown(getattr(message, key)) for key in _MESSAGE_KEYS}


def _shown(value: Any) -> Any:
    from localqueue.message import UndecodablePayload

    if isinstance(value, UndecodablePayload):
        import base64

        return {"undecodable": value.reason, "codec": value.codec, "base64": base64.b64encode(value.raw).decode()}
    return value


def json_text(data: Any, *, lines: bool = False) -> str:
    """Pretty JSON with sorted keys, or one line of it, in what the encoding of stdout can carry."""
    indent = None if lines else 2
    text = jsonlib.dumps(data, indent=indent, sort_keys=True, ensure_ascii=False, default=repr)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return jsonlib.dumps(data, indent=indent, sort_keys=True, default=repr)
    return text


def write(text: str) -> None:
    """A line (or several) on stdout, at once: who reads a pipe sees a result when it happens."""
    try:
        print(text, flush=True)
    except OSError as error:
        raise _gone(error) from None


def flush() -> None:
    try:
        sys.stdout.flush()
    except OSError as error:
        raise _gone(error) from None


def _gone(error: OSError) -> Exception:
    return ReaderGone() if error.errno in (errno.EPIPE, errno.ESHUTDOWN) else error
