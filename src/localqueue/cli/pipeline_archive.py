"""`localqueue pipeline archive, replay`: keeping what has happened, and having it happen once more."""

from __future__ import annotations

from typing import Annotated

import typer

from localqueue.cli.command import add
from localqueue.cli.durations import seconds_of
from localqueue.cli.output import Output
from localqueue.cli.pipeline_results import moment_of, show_result
from localqueue.cli.pipeline_session import Cluster, Progress, Table, teller, where
from localqueue.cli.place import Place

Queue = Annotated[str | None, typer.Option("--queue", "-q", help="Only this queue; all without it.")]


def register(app: typer.Typer) -> None:
    for command in (archive, replay):
        add(app, command)


def archive(
    place: Place,
    cluster: Cluster,
    out: Output,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="Folder of the archive.")] = None,
    table: Table = None,
    queue: Queue = None,
    view: Annotated[str, typer.Option(help="events, or a snapshot of messages or dead.")] = "events",
    format: Annotated[
        str | None, typer.Option(help="parquet or delta; of a table iceberg or delta, as its catalog has it.")
    ] = None,
    partition_by: Annotated[str, typer.Option(help="date or none.")] = "date",
    compact_after: Annotated[
        int, typer.Option(min=1, help="Merge small pieces when there are more than so many.")
    ] = 24,
    prune: Annotated[bool, typer.Option("--prune", help="Remove from the journal what is archived.")] = False,
    older_than: Annotated[str | None, typer.Option(help="With --prune: only what is so old, such as 7d.")] = None,
    progress: Progress = False,
) -> int:
    """Append to an archive what is new.

    Each entry of the journal is in it once, also when this was killed; call it again for what came since.
    """
    age = None if older_than is None else seconds_of(older_than, "--older-than")
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.archive import archive as run

        result = run(
            spark,
            path=path,
            table=table,
            queue=queue,
            view=view,
            format=format,
            partition_by=None if partition_by == "none" else partition_by,
            compact_after=compact_after,
            prune=prune,
            older_than=age,
            progress=teller(progress),
            **there,
        )
    return show_result(out, result, changed=bool(result.rows or result.merged or result.pruned))


def replay(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Address of a store with a journal, or an archive.")],
    place: Place,
    cluster: Cluster,
    out: Output,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Messages that were put into this queue.")] = None,
    to: Annotated[str | None, typer.Option(metavar="QUEUE", help="Put them into this one; where they were.")] = None,
    since: Annotated[str | None, typer.Option(help="Put from this time on; a time, or how long ago: 2h.")] = None,
    until: Annotated[str | None, typer.Option(help="Put before this time.")] = None,
    from_seq: Annotated[int | None, typer.Option(min=0, help="From this entry of the journal on.")] = None,
    to_seq: Annotated[int | None, typer.Option(min=0, help="Up to this entry.")] = None,
    condition: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only those for which this holds.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
    rate: Annotated[float | None, typer.Option(help="Messages a second at most.")] = None,
    idempotency_key: Annotated[str | None, typer.Option(help="A replay with this name happens once.")] = None,
    again: Annotated[bool, typer.Option("--again", help="Also what was replayed before.")] = False,
    source_namespace: Annotated[str | None, typer.Option(help="Namespace of the source.")] = None,
    progress: Progress = False,
) -> int:
    """Put messages of the past once more.

    Those that were put in a window of a journal or an archive go into the store that --store names. The same call
    again finishes a replay that was killed; --since 2h is another window each time.
    """
    since_, until_ = moment_of(since, "--since"), moment_of(until, "--until")
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.replay import replay as run

        result = run(
            spark,
            source=source,
            queue=queue,
            to=to,
            since=since_,
            until=until_,
            from_seq=from_seq,
            to_seq=to_seq,
            where=condition,
            dry_run=dry_run,
            rate=rate,
            idempotency_key=idempotency_key,
            again=again,
            source_namespace=source_namespace,
            progress=teller(progress),
            **there,
        )
    return show_result(out, result, changed=(result.matched if dry_run else result.put) > 0)
