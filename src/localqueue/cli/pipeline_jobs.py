"""`localqueue pipeline doctor, process`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.command import add
from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import NEGATIVE, OK, say
from localqueue.cli.messages import QueueName
from localqueue.cli.output import Output, write
from localqueue.cli.pipeline_results import show_result
from localqueue.cli.pipeline_session import Cluster, Progress, where
from localqueue.cli.place import Place
from localqueue.spark.jobs.plain_result import plain

if TYPE_CHECKING:
    from localqueue.message import QueueStats
    from localqueue.spark.jobs.process import ProcessResult


def register(app: typer.Typer) -> None:
    add(app, doctor)
    add(app, process)


def doctor(
    place: Place,
    cluster: Cluster,
    out: Output,
    quick: Annotated[bool, typer.Option("--quick", help="Only what can be seen without starting Spark.")] = False,
) -> int:
    """Look whether Spark works here.

    With --store, --store-path or --namespace also whether that store is there and answers. The exit code is 1 when
    something fails.
    """
    from localqueue.spark.checkup import Check, has_failed
    from localqueue.spark.checkup import doctor as look

    def told(check: Check) -> None:
        if not out.as_json:
            write(str(check))

    store = where(place) if place.is_given or place.namespace is not None else {}
    with cluster.quiet():
        checks = look(**store, quick=quick, master=cluster.master, conf=cluster.settings(), told=told)
    if out.as_json:
        out.data([check.as_dict() for check in checks])
    return NEGATIVE if has_failed(checks) else OK


def process(
    queue: QueueName,
    handler: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help="Called with the value of a message.")],
    place: Place,
    cluster: Cluster,
    out: Output,
    workers: Annotated[int | None, typer.Option(min=1, help="Tasks at a time; as many as the cluster runs.")] = None,
    until: Annotated[str, typer.Option(help="empty, forever, or how long: 90, 15m, 2h.")] = "empty",
    wait_for_delayed: Annotated[
        bool, typer.Option("--wait-for-delayed", help="With --until empty: until nothing is delayed either.")
    ] = False,
    prefetch: Annotated[int, typer.Option(min=1, help="Messages leased in one transaction.")] = 1,
    concurrency: Annotated[int, typer.Option(min=1, help="Messages at a time in one task.")] = 1,
    timeout: Annotated[float | None, typer.Option(help="Seconds after which a handler is given up.")] = None,
    max_tries: Annotated[int | None, typer.Option(min=1, help="Deliveries before the last failure; 3.")] = None,
    lease_timeout: Annotated[float, typer.Option(help="Seconds; leases are renewed while handlers run.")] = 30.0,
    py_file: Annotated[
        list[str] | None, typer.Option(metavar="FILE", help="Python file or zip to send to the tasks; may be repeated.")
    ] = None,
    progress: Progress = False,
) -> int:
    """Run the workers of a queue as tasks of Spark.

    They call the function for each message, which is acked when it returns. SIGTERM or Ctrl-C lets handlers finish; a
    second one cancels the job.
    """
    options: dict[str, Any] = {"prefetch": prefetch, "concurrency": concurrency, "lease_timeout": lease_timeout}
    if timeout is not None:
        options["timeout"] = timeout
    if max_tries is not None:
        options["max_tries"] = max_tries
    ends = until if until in ("empty", "forever") else seconds_of(until, "--until")
    there = where(place)
    with cluster.session() as spark:
        from localqueue.spark.jobs.process import process as run

        if py_file:
            spark.addArtifacts(*py_file, pyfile=True)
        result = run(
            spark,
            queue=queue,
            handler=handler,
            workers=workers,
            until=ends,
            wait_for_delayed=wait_for_delayed,
            progress=_tell if progress else None,
            **there,
            **options,
        )
    changed = result.processed + result.failed > 0
    return show_result(out, _summary(result, with_tasks=out.as_json), changed=changed)


def _tell(stats: QueueStats) -> None:
    say(f"{stats.ready} ready, {stats.inflight} inflight, {stats.delayed} delayed, {stats.dead} dead")


def _summary(result: ProcessResult, *, with_tasks: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "queue": result.queue,
        "processed": result.processed,
        "failed": result.failed,
        "dead_lettered": result.dead_lettered,
        "workers": len(result.tasks),
        "seconds": round(result.seconds, 3),
    }
    return {**facts, "tasks": plain(result.tasks)} if with_tasks else facts
