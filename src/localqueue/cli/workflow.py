"""`localqueue workflow`: starting, looking at and working for the runs of workflows."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli import runs
from localqueue.cli.command import add, family
from localqueue.cli.errors import NEGATIVE, OK, CommandFailed, Mistake, say
from localqueue.cli.messages import read_json
from localqueue.cli.output import Output, write
from localqueue.cli.place import Place
from localqueue.cli.runs import InputText, Of, RunId, WorkflowName, load_workflow

if TYPE_CHECKING:
    from localqueue.workflows import StepStatus

_RUNS = ("run_id", "workflow", "version", "state", "paused", "created_at", "finished_at", "error")
_STEPS = ("name", "kind", "state", "attempts", "started_at", "finished_at", "seconds", "items", "worker", "error")
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_BARS = 60


class Identity(StrEnum):
    """What the id of a run is made of."""

    NEW = "new"
    INPUT = "input"


class Format(StrEnum):
    """What a graph is drawn as."""

    MERMAID = "mermaid"
    SVG = "svg"


def commands() -> typer.Typer:
    app = family("Start, look at, direct and work for runs of workflows.")
    add(app, start)
    add(app, list_, "list")
    for function in (show, graph, *runs.DIRECTIONS, worker, runs.forget):
        add(app, function)
    return app


def start(
    workflow: WorkflowName,
    place: Place,
    out: Output,
    input: InputText = None,
    run_id: Annotated[
        str | None, typer.Option(help="The id of the run; if there is one already, it is that one.")
    ] = None,
    identity: Annotated[Identity, typer.Option(help="With input, the same input is the same run.")] = Identity.NEW,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until it has ended; exit code 1 unless it succeeds.")
    ] = False,
    timeout: Annotated[float | None, typer.Option(help="With --wait: seconds to wait at most.")] = None,
) -> int:
    """Start a run. It is done by workers, see `workflow worker`."""
    from localqueue.errors import RunCancelled
    from localqueue.workflows import RunFailed

    if timeout is not None and not wait:
        raise Mistake("--timeout goes with --wait")
    declared = load_workflow(workflow)
    given = None if input is None else read_json(input, "--input")
    declared.validate()
    code = OK
    with place.open_store() as store:
        run = declared.start(store, given, run_id=run_id, identity=identity.value)
        if wait:
            try:
                run.wait(timeout)
            except (RunFailed, RunCancelled) as error:
                say(str(error))
                code = NEGATIVE
        status = run.status()
        shown = {"run_id": run.id, "workflow": status.workflow, "version": status.version, "state": status.state}
        out.facts({**shown, "results": dict(status.results)} if wait else shown)
    return code


def list_(
    place: Place,
    out: Output,
    workflow: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this workflow.")] = None,
    state: Annotated[str | None, typer.Option(help="Only runs in this state, or those that are paused.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
) -> None:
    """List runs, the newest first."""
    from localqueue.workflows import list_runs

    with place.open_store(read_only=True) as store:
        found = list_runs(store, workflow=workflow, state=state, limit=limit)
    rows = [{key: value for key, value in one.as_dict().items() if key not in ("steps", "results")} for one in found]
    out.rows(rows if out.as_json else map(_brief, rows), _RUNS, "no runs")


def show(
    run: RunId,
    place: Place,
    out: Output,
    of: Of = None,
    timeline: Annotated[bool, typer.Option("--timeline", help="When each step ran, as text.")] = False,
) -> None:
    """Show how a run and each of its steps stand."""
    with runs.found(place, run, of) as opened:
        if timeline:
            return _print(opened.timeline(_room_for_bars()))
        status = opened.status()
        said = status.as_dict()  # while the store is open: results are read now
    if out.as_json:
        return out.data(said)
    steps = said.pop("steps")
    out.facts(_brief(said))
    write("")
    out.rows([_step_row(one, row) for one, row in zip(status.steps, steps, strict=True)], _STEPS, "no steps")


def graph(
    drawn: Annotated[str, typer.Argument(metavar="RUN|MODULE:WORKFLOW", help="Id of a run, or a workflow.")],
    place: Place,
    out: Output,
    of: Of = None,
    format: Annotated[
        Format | None, typer.Option(help="mermaid, unless the file is called .svg.", show_default=False)
    ] = None,
    output: Annotated[str | None, typer.Option(metavar="FILE", help="Write it there instead of stdout.")] = None,
) -> None:
    """Draw the steps of a run in the colours of their states, or those of a workflow, as text for Mermaid or as SVG."""
    as_svg = format is Format.SVG or (format is None and output is not None and output.lower().endswith(".svg"))
    text = _picture(drawn, place, of, "svg" if as_svg else "mermaid")
    if output is None:
        return _print(text)
    Path(output).write_text(text, encoding="utf-8")
    out.facts({"file": output, "format": "svg" if as_svg else "mermaid"})


def _picture(drawn: str, place: Place, of: str | None, format: str) -> str:
    """Of a workflow where there is one of that name, and else of a run: its id may look like a name."""
    from localqueue.errors import QueueStoreMissingError
    from localqueue.workflows import RunMissing

    no_workflow: CommandFailed | None = None
    if of is None and _NAME.fullmatch(drawn):
        try:
            return str(getattr(load_workflow(drawn), format)())
        except CommandFailed as error:
            no_workflow = error
    try:
        with runs.found(place, drawn, of) as run:
            return str(getattr(run, format)())
    except (RunMissing, QueueStoreMissingError):
        if no_workflow is None:
            raise
        raise no_workflow from None


def worker(
    workflows: Annotated[
        list[str],
        typer.Argument(metavar="MODULE[:WORKFLOW]...", help="Workflows to work for; old versions may be among them."),
    ],
    place: Place,
    out: Output,
    queue: Annotated[
        list[str] | None,
        typer.Option("--queue", "-q", metavar="NAME[=WEIGHT]", help="A queue to work for; may be given again. All."),
    ] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Steps at a time.")] = 8,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Processes for steps that want them; the number of cores.")
    ] = None,
    prefetch: Annotated[int, typer.Option(min=1, help="Steps leased in one transaction.")] = 1,
    lease_timeout: Annotated[
        float, typer.Option(help="Seconds after which a step whose worker died is begun anew.")
    ] = 30.0,
    until_empty: Annotated[bool, typer.Option("--until-empty", help="End when nothing is ready or running.")] = False,
    shutdown_timeout: Annotated[float | None, typer.Option(help="Seconds to wait for steps when stopped.")] = None,
    worker_id: Annotated[str | None, typer.Option(help="Who holds the leases, for stats; host and process.")] = None,
    log_level: Annotated[str, typer.Option(help="debug, info, warning or error.")] = "info",
) -> int:
    """Run the steps of workflows until SIGTERM or Ctrl-C; a second signal ends at once.

    Exits with 0 when it was stopped or, with --until-empty, when every step succeeded in the end, with 1 when some were
    dead-lettered.
    """
    from localqueue.tasks.command import LEVELS, banner, show_log, weights_of

    if log_level not in LEVELS:
        raise Mistake(f"--log-level must be one of {', '.join(LEVELS)}, not {log_level!r}")
    show_log(log_level)
    first, *others = [load_workflow(spec) for spec in workflows]
    for one in (first, *others):
        one.validate()
    with place.open_store() as store:
        try:
            working = first.worker(
                store,
                also=others,
                queues=weights_of(queue),
                concurrency=concurrency,
                processes=processes,
                prefetch=prefetch,
                lease_timeout=lease_timeout,
                worker_id=worker_id,
                shutdown_timeout=shutdown_timeout,
            )
        except (ValueError, TypeError) as error:
            raise Mistake(str(error)) from error
        for line in banner(", ".join(workflows), working.tasks, working):
            say(line)
        with working.tasks:
            counts = working.run_until_empty() if until_empty else working.run()
    out.facts({"state": "stopped", "processed": counts.total, **counts.as_dict()})
    return NEGATIVE if until_empty and counts.dead_lettered else OK


def _brief(run: dict[str, Any]) -> dict[str, Any]:
    return run if not run["error"] else {**run, "error": f"{run['failed_step']}: {_said(run['error'])}"}


def _step_row(step: StepStatus, said: dict[str, Any]) -> dict[str, Any]:
    error = None if not step.error else _said(step.error)
    return {**said, "seconds": step.seconds, "items": len(step.items) or None, "error": error}


def _said(error: Mapping[str, Any]) -> str:
    return ": ".join(str(error[key]) for key in ("type", "message") if error.get(key))


def _room_for_bars() -> int:
    """Half of a terminal, for the names and figures beside the bars."""
    if not sys.stdout.isatty():
        return _BARS
    return max(_BARS // 3, min(_BARS, shutil.get_terminal_size().columns // 2))


def _print(text: str) -> None:
    """Text in what the encoding of stdout can carry."""
    encoding = sys.stdout.encoding or "utf-8"
    write(text.rstrip("\n").encode(encoding, "replace").decode(encoding))
