"""`localqueue pipeline ingest, export, compact, materialise`: tables into queues and queues into tables."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.errors import OK, Mistake
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output
from localqueue.cli.pipeline_results import show_result
from localqueue.cli.pipeline_session import Cluster, Progress, Table, follow, teller, where
from localqueue.cli.place import Place

Format = Annotated[
    str | None, typer.Option(help="parquet (default), delta, json or csv; of a table of a catalog iceberg or delta.")
]
Mode = Annotated[str, typer.Option(help="error (it must be new), append or overwrite.")]
Archive = Annotated[str | None, typer.Option(metavar="PATH", help="Archive that has what was pruned from the journal.")]
Partial = Annotated[bool, typer.Option("--partial", help="Go on without what was pruned and is in no archive.")]
OnceKey = Annotated[str | None, typer.Option(help="A job with this name happens once.")]


def register(app: typer.Typer) -> None:
    for command in (ingest, export, compact, materialise):
        add(app, command)


def ingest(
    queue: QueueName,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Path of files, or with --format table a table.")],
    place: Place,
    cluster: Cluster,
    out: Output,
    format: Annotated[
        str | None, typer.Option(help="json, csv, parquet, orc, delta, text or table; by the file names without it.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of Spark's reader; may be repeated.")
    ] = None,
    schema: Annotated[
        str | None, typer.Option(metavar="DDL", help="Types of the columns of CSV, which are text, or of JSON.")
    ] = None,
    value: Annotated[str | None, typer.Option(metavar="COLUMN", help="Has the value as JSON; else the row is.")] = None,
    key: Annotated[str | None, typer.Option(metavar="COLUMN", help="The dedupe key.")] = None,
    ordering_key: Annotated[str | None, typer.Option(metavar="COLUMN", help="The ordering key.")] = None,
    priority: Annotated[str | None, typer.Option(help="A number for all, or a column.")] = None,
    delay: Annotated[str | None, typer.Option(help="Seconds for all, or a column.")] = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Header of all messages; may be repeated.")
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=SQL", help="A row that fails this is a dead letter; may be repeated."),
    ] = None,
    idempotency_key: OnceKey = None,
    again: Annotated[bool, typer.Option("--again", help="Put everything once more.")] = False,
    rate: Annotated[float | None, typer.Option(help="Messages a second at most.")] = None,
    progress: Progress = False,
) -> int:
    """Put the rows of files or a table into a queue.

    All of it is visible at once, and each file is put once: of a folder, only new files are put, and one that has
    changed is refused.
    """
    given: dict[str, Any] = {
        "options": _pairs(option, "--option"),
        "headers": _pairs(header, "--header") or None,
        "expect": _pairs(expect, "--expect") or None,
        "priority": _number(priority, int),
        "delay": _number(delay, float),
    }
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.ingest import ingest as run

        result = run(
            spark,
            source,
            queue=queue,
            format=format,
            schema=schema,
            value=value,
            key=key,
            ordering_key=ordering_key,
            idempotency_key=idempotency_key,
            again=again,
            rate=rate,
            progress=teller(progress),
            **given,
            **there,
        )
    return show_result(out, result, changed=result.rows > 0)


def export(
    place: Place,
    cluster: Cluster,
    out: Output,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="Folder to write to.")] = None,
    table: Table = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only this queue.")] = None,
    view: Annotated[str, typer.Option(help="messages, dead, events, runs or stats.")] = "messages",
    format: Format = None,
    mode: Mode = "error",
    condition: Annotated[
        str | None, typer.Option("--where", metavar="SQL", help="Only the rows for which this holds.")
    ] = None,
    progress: Progress = False,
) -> int:
    """Write messages, events or counts to files."""
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.export import export as run

        result = run(
            spark,
            path=path,
            table=table,
            queue=queue,
            view=view,
            format=format,
            mode=mode,
            where=condition,
            progress=teller(progress),
            **there,
        )
    return show_result(out, result, changed=result.rows > 0)


def compact(
    place: Place,
    cluster: Cluster,
    out: Output,
    key: Annotated[str, typer.Option(help="ordering_key, dedupe_key or a field of the value, such as user.id.")],
    source: Annotated[
        str | None, typer.Option(metavar="SOURCE", help="Address of a store or an archive; else the store itself.")
    ] = None,
    topic: Annotated[str | None, typer.Option(metavar="QUEUE", help="Only messages of this queue.")] = None,
    path: Annotated[str | None, typer.Option(metavar="PATH", help="Write a table.")] = None,
    table: Table = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Or put them into this queue.")] = None,
    format: Format = None,
    mode: Mode = "error",
    tombstones: Annotated[
        bool, typer.Option("--tombstones/--no-tombstones", help="Whether a null value removes its key.")
    ] = True,
    source_namespace: Annotated[str | None, typer.Option(help="Namespace of the source.")] = None,
    archive: Archive = None,
    partial: Partial = False,
    idempotency_key: OnceKey = None,
    progress: Progress = False,
) -> int:
    """Keep the latest message of every key."""
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.compact import compact as run

        result = run(
            spark,
            there["url"] if source is None else source,
            key=key,
            topic=topic,
            path=path,
            table=table,
            queue=queue,
            format=format,
            mode=mode,
            tombstones=tombstones,
            source_namespace=source_namespace,
            archive=archive,
            fail_on_data_loss=not partial,
            idempotency_key=idempotency_key,
            progress=teller(progress),
            **there,
        )
    return show_result(out, result, changed=result.keys > 0)


def materialise(
    queue: QueueName,
    place: Place,
    cluster: Cluster,
    out: Output,
    path: Annotated[str | None, typer.Argument(metavar="PATH", help="Folder of the table.")] = None,
    table: Table = None,
    key: Annotated[str | None, typer.Option(help="Latest by ordering_key, dedupe_key or a field of the value.")] = None,
    sql: Annotated[str | None, typer.Option(help="Or an aggregating query over the view messages.")] = None,
    schema: Annotated[str | None, typer.Option(metavar="DDL", help="Fields of the value, e.g. 'id long'.")] = None,
    format: Annotated[
        str | None, typer.Option(help="parquet (default) or delta; of a table of a catalog iceberg or delta.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Else inside the table's folder; --table needs one.")
    ] = None,
    keep_on: Annotated[bool, typer.Option("--follow", help="Go on until SIGTERM or Ctrl-C.")] = False,
    every: Annotated[str, typer.Option(help="With --follow: how often to look.")] = "5 seconds",
    max_entries: Annotated[int | None, typer.Option(min=1, help="Entries in one batch at most.")] = None,
    archive: Archive = None,
    partial: Partial = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Build it anew, with another schema or query.")] = False,
    progress: Progress = False,
) -> int:
    """Keep a table up to date with a queue.

    It goes on where it stopped, up to what the journal has now, or with --follow for ever.
    """
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.materialise import MaterialiseResult
        from localqueue.spark.jobs.materialise import materialise as run

        result = run(
            spark,
            queue=queue,
            path=path,
            table=table,
            key=key,
            sql=sql,
            schema=schema,
            format=format,
            checkpoint=checkpoint,
            available_now=not keep_on,
            every=every,
            max_entries=max_entries,
            archive=archive,
            fail_on_data_loss=not partial,
            rebuild=rebuild,
            progress=teller(progress),
            **there,
        )
        if not isinstance(result, MaterialiseResult):
            out.facts({"path": table or path, "last_batch": follow(result)})
            return OK
    return show_result(out, result, changed=result.batches > 0)


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    found = {}
    for one in given or ():
        name, equals, value = one.partition("=")
        if not (name and equals):
            raise Mistake(f"{option} is NAME=VALUE, not {one!r}")
        found[name] = value
    return found


def _number(text: str | None, kind: type[int] | type[float]) -> int | float | str | None:
    """A number when it is one, else the name of a column."""
    if text is None:
        return None
    try:
        return kind(text)
    except ValueError:
        return text
