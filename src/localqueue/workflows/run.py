"""`Run`: one run of a workflow, to wait for, look at and direct."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from localqueue.stores.port import QueueStore, RecordWrite
from localqueue.workflows.directed import DirectedRun
from localqueue.workflows.errors import RunMismatch, WorkflowError
from localqueue.workflows.launch import launch
from localqueue.workflows.place import store_of
from localqueue.workflows.records import SKIPPED, STEP, SUCCEEDED, StepRecord, key, write
from localqueue.workflows.work import UNDONE

if TYPE_CHECKING:
    from localqueue.workflows.workflow import Workflow


class Run(DirectedRun):
    """One run, by its id; as good in any process that has the store.

    With the `workflow`, results come back as the types that its steps are annotated with.
    """

    @classmethod
    def find(cls, store: str | QueueStore | None, run_id: str, workflow: Workflow | None = None) -> Run:
        """A run that was started elsewhere, or `RunMissing`."""
        run = cls(store_of(store, creates=False), run_id, workflow)
        run._history.header(run_id)
        return run

    def fork(self, step: str, *, run_id: str | None = None, input: Any = ...) -> Run:
        """Begin a new run from a step of this one: what was done before it is taken over, and all that follows is done
        anew. With `input`, the new run has another one."""
        from localqueue.workflows.workflow import new_run_id

        if self._workflow is None:
            raise WorkflowError(f"fork needs the workflow of run {self.id!r}: ask workflow.run(store, {self.id!r})")
        definition, header = self._workflow.definition, self._history.header(self.id)
        if (definition.name, definition.digest) != (header.workflow, header.definition):
            raise RunMismatch(
                f"run {self.id!r} follows workflow {header.workflow!r} version {header.version}, and was asked for "
                f"with {definition.name!r} version {definition.version}, which has other steps"
            )
        records = {
            tuple(parts): msgspec.structs.replace(kept.value, finished_at=kept.value.finished_at or kept.at)
            for parts, kept in self._history.steps(self.id)
        }
        if definition.flow is not None:
            taken, only = _calls_before(records, definition.flow.name, step), frozenset({definition.flow.name})
        else:
            if step not in definition.steps:
                raise WorkflowError(
                    f"workflow {definition.name!r} has no step {step!r} (it has {', '.join(definition.steps)})"
                )
            only = frozenset(definition.below([step]))
            kept = [name for name in definition.steps if name not in only]
            for name in kept:
                record = records.get((name,))
                if record is None or record.state not in (SUCCEEDED, SKIPPED):
                    raise WorkflowError(
                        f"run {self.id!r} can not be forked at {step!r}: step {name!r}, which would be taken over, is "
                        "not done; fork at that one, or retry the run"
                    )
            undone = [name for name in kept if any(parts[0] == f"{UNDONE}{name}" for parts in records)]
            if undone:
                raise WorkflowError(
                    f"run {self.id!r} can not be forked at {step!r}: what {undone[0]!r} has done was undone; fork "
                    "it at that step, or above"
                )
            taken = {parts: record for parts, record in records.items() if parts[0] in kept}
        fresh = run_id or new_run_id()
        values = self._workflow.values
        given = self._history.input(self.id) if input is ... else self._workflow.checked_input(input)
        copies = [copy for parts, record in taken.items() for copy in self._copied(fresh, parts, record)]
        return self._workflow.begin(
            self._store, fresh, given,
            lambda: launch(
                definition, fresh, given, values, self._store, forked=(self.id, step), only=only, records=copies
            ),
        )  # fmt: skip

    def _copied(self, run_id: str, parts: Any, record: StepRecord) -> Iterator[RecordWrite]:
        """A step of this run as one of another, with its value: that one may be kept for longer."""
        if record.ref is not None:
            kept = self._history.values.write(key(run_id, *parts), self._history.result(record))
            record = msgspec.structs.replace(record, result=kept.value, ref=kept.ref)
            yield from kept.records
        yield write(STEP, key(run_id, *parts), record)

    def mermaid(self) -> str:
        """The graph as text for Mermaid, with the states of the steps."""
        from localqueue.workflows.mermaid import mermaid_of

        return mermaid_of(self._history.shape(self.id), {one.name: one.state for one in self.status().steps})

    def svg(self) -> str:
        """The graph as a picture, with the states of the steps."""
        from localqueue.workflows.picture import picture_of

        return picture_of(self._history.shape(self.id), {one.name: one.state for one in self.status().steps})

    def timeline(self, width: int = 60) -> str:
        """When each step ran, as text."""
        from localqueue.workflows.timeline import timeline_of

        return timeline_of(self.status(), width=width, now=self._store.now())

    def __repr__(self) -> str:
        return f"<Run {self.id}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)


def _calls_before(records: Any, flow: str, step: str) -> dict[Any, Any]:
    calls = sorted((parts, record) for parts, record in records.items() if len(parts) == 2 and parts[0] == flow)
    names = [record.name for _, record in calls]
    if step not in names:
        raise WorkflowError(f"the flow has made no call {step!r} (it has made {', '.join(map(str, names)) or 'none'})")
    before = calls[: names.index(step)]
    return dict(before)
