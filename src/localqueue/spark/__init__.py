"""Queues, dead letters and event history on Spark: the data source `localqueue` and the jobs of a data pipeline."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOMES = {
    "OptionError": "localqueue.spark.options",
    "register": "localqueue.spark.spark_session",
    "session": "localqueue.spark.spark_session",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
