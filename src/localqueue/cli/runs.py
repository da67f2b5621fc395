"""`localqueue workflow signal, cancel, retry, pause, resume, fork, forget`: directing runs that are there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localqueue.cli.durations import seconds_of
from localqueue.cli.errors import MISTAKE, CommandFailed
from localqueue.cli.handlers import load_object
from localqueue.cli.messages import read_json
from localqueue.cli.output import Output
from localqueue.cli.place import Place

if TYPE_CHECKING:
    from localqueue.stores.port import QueueStore
    from localqueue.workflows import Run, Workflow

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
WorkflowName = Annotated[
    str, typer.Argument(metavar="MODULE[:WORKFLOW]", help="The module, and the name of the Workflow in it.")
]
InputText = Annotated[
    str | None, typer.Option(metavar="JSON|@FILE|-", help="The input: JSON, a file with it, or stdin. None without it.")
]
Of = Annotated[
    str | None,
    typer.Option("--of", metavar="MODULE[:WORKFLOW]", help="Its workflow, if that has a result store of its own."),
]


def load_workflow(spec: str) -> Workflow:
    """The workflow that a user names as `module:workflow`."""
    from localqueue.workflows import Workflow

    return load_object(spec, Workflow, MISTAKE)


@contextmanager
def found(place: Place, run_id: str, of: str | None = None) -> Iterator[Run]:
    """A run to look at."""
    from localqueue.workflows import Run

    workflow = None if of is None else load_workflow(of)
    with place.open_store(read_only=True) as store:
        yield Run.find(store, run_id, workflow)


@contextmanager
def _store_with_runs(place: Place) -> Iterator[QueueStore]:
    """A store that is there, to be changed: one that was made now would have no runs."""
    with place.open_store(read_only=True):
        pass
    with place.open_store() as store:
        yield store


@contextmanager
def _directed(place: Place, run_id: str, workflow: Workflow | None = None) -> Iterator[Run]:
    from localqueue.workflows import Run

    with _store_with_runs(place) as store:
        yield Run.find(store, run_id, workflow)


def signal(
    run: RunId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the signal.")],
    place: Place,
    out: Output,
    payload: Annotated[
        str | None, typer.Option(metavar="JSON|@FILE|-", help="What comes with it: JSON, a file with it, or stdin.")
    ] = None,
) -> None:
    """Send a run a signal: the step that waits for it goes on, and one that will wait for it finds it there."""
    value = None if payload is None else read_json(payload, "--payload")
    with _directed(place, run) as opened:
        opened.signal(name, value)
    out.facts({"run_id": run, "signal": name, "state": "sent"})


def cancel(
    run: RunId,
    place: Place,
    out: Output,
    compensate: Annotated[bool, typer.Option("--compensate", help="Undo what is done, the last first.")] = False,
) -> None:
    """Call a run off, and the runs it has started."""
    with _directed(place, run) as opened:
        if not opened.cancel(compensate=compensate):
            raise CommandFailed(f"run {run!r} has ended already; `localqueue workflow show {run}` says how")
        out.facts({"run_id": run, "state": opened.status().state})


def retry(run: RunId, place: Place, out: Output) -> None:
    """Go on with a failed run from the steps that have failed."""
    with _directed(place, run) as opened:
        out.facts({"run_id": run, "state": "retried", "steps": opened.retry()})


def pause(run: RunId, place: Place, out: Output) -> None:
    """Have no further step of a run begin; those that run go on."""
    with _directed(place, run) as opened:
        opened.pause()
    out.facts({"run_id": run, "state": "paused"})


def resume(run: RunId, place: Place, out: Output) -> None:
    """Go on with a run that was paused."""
    with _directed(place, run) as opened:
        opened.resume()
    out.facts({"run_id": run, "state": "resumed"})


def fork(
    workflow: WorkflowName,
    run: RunId,
    step: Annotated[str, typer.Argument(metavar="STEP", help="The first step that is done anew.")],
    place: Place,
    out: Output,
    run_id: Annotated[str | None, typer.Option(help="The id of the new run.")] = None,
    input: InputText = None,
) -> None:
    """Begin a new run from a step of another: what was done before that step is taken over."""
    declared = load_workflow(workflow)
    changed: dict[str, Any] = {} if input is None else {"input": read_json(input, "--input")}
    with _directed(place, run, declared) as opened:
        forked = opened.fork(step, run_id=run_id, **changed)
        out.facts({"run_id": forked.id, "forked_from": run, "step": step, "state": forked.status().state})


DIRECTIONS = (signal, cancel, retry, pause, resume, fork)


def forget(
    place: Place,
    out: Output,
    older_than: Annotated[str, typer.Option(metavar="TIME", help="Of runs that ended that long ago, e.g. 12h, 30d.")],
    workflow: Annotated[str | None, typer.Option(metavar="NAME", help="Only runs of this workflow.")] = None,
    of: Of = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count them.")] = False,
) -> None:
    """Remove what is kept of runs that have ended."""
    from localqueue.workflows import forget_runs

    age = seconds_of(older_than, "--older-than")
    values = None if of is None else load_workflow(of).values
    with place.open_store(read_only=True) if dry_run else _store_with_runs(place) as store:
        count = forget_runs(store, older_than=age, workflow=workflow, dry_run=dry_run, values=values)
    out.facts({"dry_run": dry_run, "older_than": age, "would_delete" if dry_run else "deleted": count})
