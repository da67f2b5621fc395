"""Names that jobs look up: one that is not there is an error that says which there are, whoever asks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from localqueue.errors import QueueError, QueueStoreMissingError
from localqueue.spark.options import Options
from localqueue.spark.place import opened
from localqueue.stores.port import QueueStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class UnknownName(QueueError, ValueError):
    """There is no queue, key, shape or message of that name."""


def need_queue(store: QueueStore, queue: str | None, before: str = "") -> None:
    """UnknownName unless the store knows the queue, be it empty now. `before` is what the error begins with."""
    if queue is not None and queue not in (names := store.queues()):
        raise UnknownName(
            f"{before}there is no queue {queue!r} in namespace {store.namespace!r} of {store.url!r}: {listed(names)}"
        )


def need_queue_in(rows: DataFrame, queue: str, what: str, store: Options | None) -> None:
    """UnknownName unless the queue occurs in rows, or else is known to a store: it may have put nothing by then."""
    from pyspark.sql import functions as f

    if not rows.where(f.col("queue") == queue).isEmpty():
        return
    if store is not None:
        with suppress(QueueStoreMissingError), opened(store, read_only=True) as there:
            if queue in there.queues():
                return
    names = [row[0] for row in rows.select("queue").distinct().collect()]
    raise UnknownName(f"there is no queue {queue!r} in {what}: {listed(names)}")


def listed(names: Iterable[str], nobody: str = "it") -> str:
    """What there is, for an error."""
    shown = ", ".join(map(repr, sorted(names)))
    return f"there are {shown}" if shown else f"{nobody} has none"
