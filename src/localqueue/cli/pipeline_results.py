"""What the commands of the pipeline show: results of jobs, rows of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import Mistake
from localqueue.cli.output import Output, write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def show_result(out: Output, result: Any) -> None:
    """What a job did: all its facts as JSON, or its own sentence."""
    if out.as_json:
        out.data(plain(result))
    else:
        write(str(result))


def plain(value: Any) -> Any:
    """The same in what JSON has; times as the other commands tell them, seconds since the epoch."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value) if not one.name.startswith("_")}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, date):
        return value.isoformat()
    return float(value) if isinstance(value, Decimal) else value


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    """The rows of a small table. Times go through Arrow, which knows their zone."""
    return [plain(row) for row in frame.toArrow().to_pylist()]


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
