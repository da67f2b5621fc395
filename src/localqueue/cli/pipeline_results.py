"""What the commands of the pipeline show and understand: results of jobs, times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import NOTHING, OK, CommandFailed, Mistake
from localqueue.cli.output import Output, write
from localqueue.spark.jobs.plain_result import plain


def show_result(out: Output, result: Any, *, changed: bool, there: Mapping[str, Any], queue: str | None = None) -> int:
    """What a job did: all its facts as JSON with `changed`, or its own sentence; the exit code.

    A job that had nothing to do, because there is no queue of this name at all, fails instead.
    """
    if not changed and queue is not None:
        need_queue(queue, **there)
    facts = plain(result)
    if out.as_json or isinstance(result, Mapping):
        out.data({**facts, "changed": changed}) if out.as_json else out.facts(facts)
    else:
        write(str(result))
    if not changed and not out.as_json:
        write("nothing to do")
    return OK if changed else NOTHING


def need_queue(queue: str, url: str, namespace: str) -> None:
    """Fail, naming what there is, unless the store is there and has a queue of this name."""
    from localqueue.stores.url import open_store

    with open_store(url, namespace=namespace, read_only=True) as store:
        names, where = sorted(store.queues()), store.url
    if queue not in names:
        there = f"there are {', '.join(map(repr, names))}" if names else "it has none"
        raise CommandFailed(f"there is no queue {queue!r} in namespace {namespace!r} of {where!r}: {there}")


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
