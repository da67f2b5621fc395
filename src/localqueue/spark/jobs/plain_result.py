"""Results of jobs and rows of Spark in what JSON has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
