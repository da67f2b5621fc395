"""What the commands of the pipeline show and understand: results of jobs, times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import NOTHING, OK, Mistake
from localqueue.cli.output import Output, write
from localqueue.spark.jobs.plain_result import plain


def show_result(out: Output, result: Any, *, changed: bool) -> int:
    """What a job did: all its facts as JSON with `changed`, or its own sentence; the exit code."""
    facts = plain(result)
    if out.as_json or isinstance(result, Mapping):
        out.data({**facts, "changed": changed}) if out.as_json else out.facts(facts)
    else:
        write(str(result))
    if not changed and not out.as_json:
        write("nothing to do")
    return OK if changed else NOTHING


def moment_of(text: str | None, option: str) -> datetime | None:
    """`2h` ago, or an ISO time; one without a zone is of this machine's zone."""
    if text is None:
        return None
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.now(UTC) - timedelta(seconds=seconds_of(text, option))
    except (Mistake, OverflowError):
        raise Mistake(
            f"{option} is a time such as 2026-01-31T12:00, or how long ago, such as 2h, not {text!r}"
        ) from None
