"""`triage`: dead letters by the shape of their error, and what to do with those of one shape.

Tasks read and compare the dead letters; only the ids that were chosen come to the driver, which returns or removes them
page by page and leaves an audit entry in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from localqueue.queue.setup import check_name
from localqueue.spark.error_shape import error_shape
from localqueue.spark.jobs import triage_audit
from localqueue.spark.jobs.arguments import where_sql
from localqueue.spark.jobs.known_names import UnknownName, listed, need_queue
from localqueue.spark.jobs.triage_actions import DISCARD, REPLAY, carry_out
from localqueue.spark.jobs.triage_audit import AuditEntry
from localqueue.spark.options import parse
from localqueue.spark.place import opened
from localqueue.stores.port import DEAD, QueueStore

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Progress = Callable[[int, int], object]


def triage(spark: SparkSession | None, *, queue: str, url: str | None = None, namespace: str | None = None) -> Triage:
    """The dead letters of a queue, to be looked at, replayed and discarded.

    The queue must be there. Without a session there are only those things that need none: what is told its `ids`,
    `audit` and `resume`.
    """
    return Triage(spark, queue=queue, url=url, namespace=namespace)


class Triage:
    """Dead letters of one queue. Made by `triage`; none is read before it is asked for."""

    def __init__(self, spark: SparkSession | None, *, queue: str, url: str | None, namespace: str | None) -> None:
        given = {"url": url, "namespace": namespace, "queue": check_name(queue)}
        self._options = parse({name: value for name, value in given.items() if value is not None})
        self._spark = spark
        self.queue = queue
        with opened(self._options, read_only=True) as store:
            need_queue(store, queue)

    def need_shape(self, shape: str) -> None:
        """UnknownName unless a dead letter has the shape, or had it when one was replayed or discarded by it."""
        shapes = [row["shape"] for row in self.groups().select("shape").collect()]
        if shape not in shapes and all(entry.chosen_by.get("shape") != shape for entry in self.audit()):
            there = listed(shapes, "the queue")
            raise UnknownName(f"no dead letter of queue {self.queue!r} has the shape {shape!r}: {there}")

    def dead(self, *, columns: str | None = None) -> DataFrame:
        """Every dead letter with the columns of the view `dead`, or some of them, and the `shape` of its error."""
        if self._spark is None:
            raise ValueError("dead letters are read by Spark: give triage a session, or choose them by ids")
        options = self._options
        reader = self._spark.read.format("localqueue").option("url", options.url).option("view", "dead")
        reader = reader.option("namespace", options.namespace).option("queue", self.queue)
        if columns is not None:
            reader = reader.option("columns", columns)
        return reader.load().withColumn("shape", error_shape("last_error"))

    def groups(self) -> DataFrame:
        """One row for each shape, the most frequent first.

        `first_at` and `last_at` are when the first and the last of them died; `samples` are those two: `id`, `value`.
        """
        from pyspark.sql import functions as F

        died = F.coalesce("failed_at", "created_at")
        one = F.struct("id", "value")
        found = self.dead(columns="id,value,created_at,failed_at,last_error").groupBy("shape")
        return found.agg(
            F.count("*").alias("count"),
            F.min(died).alias("first_at"),
            F.max(died).alias("last_at"),
            F.array_distinct(F.array(F.min_by(one, died), F.max_by(one, died))).alias("samples"),
        ).orderBy(F.desc("count"), "shape")

    def sample(self, shape: str, n: int = 10) -> DataFrame:
        """Up to `n` dead letters of a shape, those that died last first."""
        from pyspark.sql import functions as F

        if type(n) is not int or n < 1:
            raise ValueError(f"n must be a whole number from 1, not {n!r}")
        died = F.coalesce("failed_at", "created_at")
        return self.dead().where(F.col("shape") == shape).orderBy(died.desc(), F.desc("id")).limit(n)

    def replay(
        self,
        *,
        shape: str | None = None,
        where: str | Column | None = None,
        ids: Sequence[str] | None = None,
        to: str | None = None,
        delay: float = 0.0,
        dry_run: bool = False,
        by: str | None = None,
        progress: Progress | None = None,
    ) -> AuditEntry:
        """Return dead letters to delivery with a fresh attempt budget, or with `to` move them into another queue.

        They are chosen by `shape`, by `where` (a condition of Spark on the columns of `dead()`), by both, or by `ids`;
        `where="true"` takes all. What is chosen is written down first, and exactly that is replayed. A message whose
        dedupe key a live one holds stays dead; in another queue that live one stands for it. With `dry_run` nothing is
        changed and nothing is written: the entry only says how many would be.
        """
        if to is not None and check_name(to) == self.queue:
            raise ValueError(f"to={to!r} is the queue itself: leave it out")
        if delay < 0:
            raise ValueError(f"delay must be seconds from 0, not {delay!r}")
        return self._act(REPLAY, shape, where, ids, to=to, delay=delay, dry_run=dry_run, by=by, progress=progress)

    def discard(
        self,
        *,
        shape: str | None = None,
        where: str | Column | None = None,
        ids: Sequence[str] | None = None,
        dry_run: bool = False,
        by: str | None = None,
        progress: Progress | None = None,
    ) -> AuditEntry:
        """Remove dead letters for good, chosen as for `replay`. They count as settled: what waited for them goes on."""
        return self._act(DISCARD, shape, where, ids, dry_run=dry_run, by=by, progress=progress)

    def resume(self, audit_id: str, *, progress: Progress | None = None) -> AuditEntry:
        """Finish a replay or discard that was cut off. What has died again since it began is left alone."""
        with opened(self._options) as store:
            entry = triage_audit.find(store, audit_id)
            if entry.queue != self.queue:
                raise ValueError(f"audit entry {audit_id!r} is of queue {entry.queue!r}, not {self.queue!r}")
            return carry_out(store, entry, progress, again=True)

    def audit(self) -> list[AuditEntry]:
        """What was done to the dead letters of this queue, the latest first."""
        with opened(self._options, read_only=True) as store:
            return list(triage_audit.entries(store, self.queue))[::-1]

    def audit_ids(self, audit_id: str) -> list[str]:
        """The ids that an entry was about."""
        with opened(self._options, read_only=True) as store:
            entry = triage_audit.find(store, audit_id)
            return [one for page in range(entry.pages) for one in triage_audit.ids_of(store, audit_id, page)]

    def _act(
        self,
        action: str,
        shape: str | None,
        where: str | Column | None,
        ids: Sequence[str] | None,
        *,
        dry_run: bool,
        by: str | None,
        progress: Progress | None,
        **how: Any,
    ) -> AuditEntry:
        chosen_by = _chosen_by(shape, where, ids)
        with opened(self._options, read_only=dry_run) as store:
            found = self._found(store, ids) if ids is not None else self._selected(shape, where)
            if shape is not None and not found:
                self.need_shape(shape)
            at = store.now()
            entry = AuditEntry(
                id="" if dry_run else triage_audit.new_id(at),
                action=action,
                queue=self.queue,
                by=by or triage_audit.whoami(),
                at=at,
                chosen_by=chosen_by,
                selected=len(found),
                state=triage_audit.DRY_RUN if dry_run else triage_audit.RUNNING,
                **how,
            )
            return entry if dry_run else carry_out(store, triage_audit.begin(store, entry, found), progress)

    def _found(self, store: QueueStore, ids: Sequence[str]) -> list[str]:
        """Those of the ids that are dead letters of this queue; UnknownName when none is even a message of it."""
        found = (store.get(self.queue, one) for one in dict.fromkeys(ids))
        messages = [one for one in found if one is not None]
        if ids and not messages:
            raise UnknownName(
                f"no message of queue {self.queue!r} has the id {' or '.join(map(repr, ids[:3]))}: give that of a "
                "dead letter, as sample() and the view dead show it"
            )
        return [one.id for one in messages if one.state == DEAD]

    def _selected(self, shape: str | None, where: str | Column | None) -> list[str]:
        """The ids, in the order in which the messages were put."""
        from pyspark.sql import functions as F

        frame = self.dead(columns="id,last_error" if where is None else None)
        if shape is not None:
            frame = frame.where(F.col("shape") == shape)
        if where is not None:
            frame = where_sql(frame, where) if isinstance(where, str) else frame.where(where)
        ids: list[str] = frame.select("id").toArrow().column(0).to_pylist()
        return sorted(ids)


def _chosen_by(shape: str | None, where: str | Column | None, ids: Sequence[str] | None) -> dict[str, Any]:
    """The filter as it is written down."""
    if isinstance(ids, str):
        raise TypeError(f"ids must be a list of message ids, not the text {ids!r}")
    if ids is not None and (shape is not None or where is not None):
        raise ValueError("give either ids or a filter (shape, where), not both")
    if ids is not None:
        return {"ids": len(ids)}
    if shape is None and where is None:
        raise ValueError('say which dead letters: shape=, where= or ids=; where="true" takes all')
    given = {"shape": shape, "where": None if where is None else str(where)}
    return {name: value for name, value in given.items() if value is not None}
