"""`localqueue pipeline triage groups, sample, replay, discard, audit`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import Mistake
from localqueue.cli.messages import Delay, QueueName
from localqueue.cli.output import Output
from localqueue.cli.pipeline_results import show_result
from localqueue.cli.pipeline_session import Cluster, Progress, teller, where
from localqueue.cli.place import Place
from localqueue.spark.jobs.plain_result import rows_of

if TYPE_CHECKING:
    from localqueue.spark.jobs.triage import Triage
    from localqueue.spark.jobs.triage_audit import AuditEntry

Shape = Annotated[str | None, typer.Option(help="Those whose error has this shape, as groups shows it.")]
Condition = Annotated[
    str | None,
    typer.Option("--where", metavar="SQL", help="Those for which this holds, e.g. 'attempts > 3'; 'true' for all."),
]
Ids = Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="This one; may be repeated.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count them.")]


def register(app: typer.Typer) -> None:
    for command in (groups, sample, replay, discard, audit, resume):
        add(app, command)


def groups(queue: QueueName, place: Place, cluster: Cluster, out: Output) -> None:
    """Count dead letters by the shape of their error."""
    with _triage(queue, place, cluster) as found:
        rows = rows_of(found.groups())
    out.rows(rows, ("count", "shape", "first_at", "last_at"), "no dead letters")


def sample(
    queue: QueueName,
    shape: Annotated[str, typer.Argument(help="The shape, as groups shows it.")],
    place: Place,
    cluster: Cluster,
    out: Output,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many at most.")] = 10,
) -> None:
    """Show the latest dead letters of a shape."""
    with _triage(queue, place, cluster) as found:
        rows = rows_of(found.sample(shape, limit))
        if not rows:
            found.need_shape(shape)
    shown = [{**row, "error": (row["last_error"] or {}).get("message")} for row in rows]
    out.rows(shown, ("id", "attempts", "failed_at", "error", "value"), "none")


def replay(
    queue: QueueName,
    place: Place,
    cluster: Cluster,
    out: Output,
    shape: Shape = None,
    condition: Condition = None,
    id: Ids = None,
    to: Annotated[str | None, typer.Option(metavar="QUEUE", help="Move them into another queue.")] = None,
    delay: Delay = 0.0,
    dry_run: DryRun = False,
    progress: Progress = False,
) -> int:
    """Return dead letters to delivery with a fresh attempt budget."""
    chosen = _chosen(shape, condition, id)
    with _triage(queue, place, cluster, needs_spark=id is None) as found:
        return _show(out, found.replay(**chosen, to=to, delay=delay, dry_run=dry_run, progress=teller(progress)))


def discard(
    queue: QueueName,
    place: Place,
    cluster: Cluster,
    out: Output,
    shape: Shape = None,
    condition: Condition = None,
    id: Ids = None,
    dry_run: DryRun = False,
    progress: Progress = False,
) -> int:
    """Remove dead letters for good."""
    chosen = _chosen(shape, condition, id)
    with _triage(queue, place, cluster, needs_spark=id is None) as found:
        return _show(out, found.discard(**chosen, dry_run=dry_run, progress=teller(progress)))


def audit(
    queue: QueueName,
    place: Place,
    cluster: Cluster,
    out: Output,
    ids: Annotated[str | None, typer.Option(metavar="AUDIT", help="List the ids that this entry was about.")] = None,
) -> None:
    """Show what was replayed and discarded, by whom; the latest first."""
    with _triage(queue, place, cluster, needs_spark=False) as found:
        if ids is not None:
            return out.rows([{"id": one} for one in found.audit_ids(ids)], ("id",), "none")
        rows = [{**entry.as_dict(), "chosen_by": dict(entry.chosen_by)} for entry in found.audit()]
    columns = ("id", "at", "action", "state", "selected", "done", "gone", "in_use", "to", "by", "chosen_by")
    out.rows(rows, columns, "nothing was replayed or discarded")


def resume(
    queue: QueueName,
    entry: Annotated[str, typer.Argument(metavar="AUDIT", help="Id of the entry, as audit shows it.")],
    place: Place,
    cluster: Cluster,
    out: Output,
    progress: Progress = False,
) -> int:
    """Finish a replay or discard that was cut off."""
    with _triage(queue, place, cluster, needs_spark=False) as found:
        return _show(out, found.resume(entry, progress=teller(progress)))


def _chosen(shape: str | None, condition: str | None, ids: list[str] | None) -> dict[str, Any]:
    if shape is None and condition is None and not ids:
        raise Mistake("say which dead letters: --shape, --where or --id; --where true takes all")
    return {"shape": shape, "where": condition, "ids": ids or None}


def _show(out: Output, entry: AuditEntry) -> int:
    changed = (entry.selected if entry.state == "dry run" else entry.done) > 0
    return show_result(out, entry.as_dict(), changed=changed)


@contextmanager
def _triage(queue: str, place: Place, cluster: Cluster, *, needs_spark: bool = True) -> Iterator[Triage]:
    from localqueue.spark.jobs.triage import triage

    there = where(place)
    if not needs_spark:
        yield triage(None, queue=queue, **there)
        return
    with cluster.session() as spark:
        yield triage(spark, queue=queue, **there)
