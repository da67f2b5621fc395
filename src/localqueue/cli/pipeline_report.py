"""`localqueue pipeline report, report-live`."""

from __future__ import annotations

from typing import Annotated

import typer

from localqueue.cli.command import add
from localqueue.cli.output import Output, write
from localqueue.cli.pipeline_results import moment_of
from localqueue.cli.pipeline_session import Cluster, Progress, follow, teller, where
from localqueue.cli.place import Place
from localqueue.spark.jobs.plain_result import plain

Queue = Annotated[str | None, typer.Option("--queue", "-q", help="Only this queue; all without it.")]
Title = Annotated[str | None, typer.Option(help="Title of the page.")]


def register(app: typer.Typer) -> None:
    add(app, report)
    add(app, report_live)


def report(
    place: Place,
    cluster: Cluster,
    out: Output,
    queue: Queue = None,
    html: Annotated[str | None, typer.Option(metavar="FILE", help="Write the report as a page with plots.")] = None,
    since: Annotated[str | None, typer.Option(help="From this time on; a time, or how long ago: 2h.")] = None,
    until: Annotated[str | None, typer.Option(help="Before this time.")] = None,
    archive: Annotated[str | None, typer.Option(metavar="PATH", help="An archive, not the store.")] = None,
    bucket: Annotated[int | None, typer.Option(min=1, help="Seconds that a point of a plot stands for.")] = None,
    title: Title = None,
    progress: Progress = False,
) -> None:
    """Report what the journal tells.

    Latencies, throughput, retries, dead letters and workers, from the journal of the store or from an archive of it;
    with a store, its workflows too.
    """
    since_, until_ = moment_of(since, "--since"), moment_of(until, "--until")
    there = where(place) if archive is None else {}
    with cluster.session(brief=lambda: bool(there) and _is_short(**there)) as spark:
        from localqueue.spark.jobs.report import report as make

        made = make(
            spark,
            **there,
            queue=queue,
            since=since_,
            until=until_,
            events=archive,
            bucket=bucket,
            html=html,
            title=title,
            progress=teller(progress),
        )
        if out.as_json:
            return out.data({"html": made.html_path, **{name: plain(made.rows(name)) for name in made.tables}})
    write(made.summary if made.html_path is None else f"{made.summary}\n{made.html_path}")


def _is_short(url: str, namespace: str) -> bool:
    """Whether the journal of a store is read in no time, so that starting Spark is most of the work."""
    from localqueue.spark.jobs.small_tables import SMALL
    from localqueue.stores.url import open_store

    with open_store(url, namespace=namespace, read_only=True) as store:
        first, last = store.journal_span()
    return last - first < SMALL


def report_live(
    place: Place,
    cluster: Cluster,
    out: Output,
    checkpoint: Annotated[str, typer.Option(metavar="FOLDER", help="Where it notes how far it is.")],
    output: Annotated[str, typer.Option(metavar="FOLDER", help="Folder for report.html and its tables.")],
    queue: Queue = None,
    every: Annotated[str | None, typer.Option(help="How often, such as '30 seconds'; as often as it can.")] = None,
    available_now: Annotated[bool, typer.Option("--available-now", help="Report what is there and end.")] = False,
    max_events: Annotated[int | None, typer.Option(min=1, help="Entries in one batch at most.")] = None,
    title: Title = None,
    progress: Progress = False,
) -> None:
    """Keep a report up to date.

    It follows the journal until SIGTERM or Ctrl-C, and goes on where it was when it is started again.
    """
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.live_report import stream_report

        query = stream_report(
            spark,
            **there,
            checkpoint=checkpoint,
            output=output,
            queue=queue,
            trigger=every,
            available_now=available_now,
            max_events=max_events,
            title=title,
            progress=teller(progress),
        )
        last = follow(query)
    out.facts({"output": output, "checkpoint": checkpoint, "last_batch": last})
