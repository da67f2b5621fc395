"""Steps that make messages: one for each item, or the run of a child."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localqueue.message import QueueMessage
from localqueue.stores.port import Changes, RecordWrite
from localqueue.workers.job import leased_at
from localqueue.workers.outcome import Outcome
from localqueue.workflows import decisions, plan
from localqueue.workflows.definition import Definition
from localqueue.workflows.errors import StepRefused
from localqueue.workflows.launch import launch
from localqueue.workflows.outcomes import StepOutcomes, changed, run_of
from localqueue.workflows.records import (
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    StepRecord,
    key,
)
from localqueue.workflows.step import Step
from localqueue.workflows.work import Work


class Expansions(StepOutcomes):
    """What such steps add to their runs, and what becomes of it."""

    def _items(self, message: QueueMessage[Any], step: Step) -> Any:
        """What a step above has returned, for a step that is run for each item of it; one that was skipped has none."""
        assert isinstance(step.each, str)
        found = self.history.step(run_of(message), step.each)
        if found is not None and found.value.state == SKIPPED:
            return []
        return self.history.returned(run_of(message), step.each)

    def _fan_out(
        self, message: QueueMessage[Any], definition: Definition, step: Step, work: Work, items: Any
    ) -> Outcome:
        if not isinstance(items, list | tuple):
            raise StepRefused(
                f"step {step.name!r} is run for each item of a list, and {_source(step)} gave {items!r:.200}"
            )
        each = list(items)
        if step.batch is not None:
            each = [each[n : n + step.batch] for n in range(0, len(each), step.batch)]
        run_id, mint = run_of(message), self.queue.store.mint
        record = StepRecord(RUNNING, count=len(each), started_at=leased_at(message), attempts=message.tries)
        outcome = self._acked(message, record, work.parts, wakes=(step.queue,) if len(each) > 1 else ())

        def more() -> Changes:
            added = plan.fan_out(definition, step, run_id, each, work.value, mint)
            return Changes(enqueue=added.messages, edges=added.edges)

        outcome.more = more
        return outcome

    def _begin_child(
        self, message: QueueMessage[Any], definition: Definition, step: Step, work: Work, given: Any
    ) -> Outcome:
        assert step.child is not None
        run_id = run_of(message)
        child_id = f"{run_id}.{step.name}"
        child = step.child.definition
        record = StepRecord(RUNNING, child=child_id, started_at=leased_at(message), attempts=message.tries)
        outcome = self._acked(message, record, work.parts, wakes=sorted({one.queue for one in child.steps.values()}))

        def more() -> Changes:
            return launch(
                child, child_id, given, self.history.values, self.queue.store,
                parent=(run_id, step.name), collect=work.value,
            )  # fmt: skip

        outcome.more = more
        return outcome

    def _collect(self, message: QueueMessage[Any], definition: Definition, work: Work) -> Outcome:
        """All items are done, or the run of the child is."""
        run_id, step = run_of(message), definition.steps[work.step]
        found = self.history.step(run_id, work.step)
        record = StepRecord(RUNNING) if found is None else found.value
        record = changed(record, state=SUCCEEDED, worker=message.leased_by)
        records: Sequence[RecordWrite] = ()
        if record.child is not None:
            written = self.history.values.write(key(run_id, *work.parts), self._child_result(record.child, step))
            record = changed(record, result=written.value, ref=written.ref)
            records = written.records
        return self._acked(
            message, record, work.parts, records,
            ends=decisions.ends_run(definition, work),
            wakes=self._freed(definition, work.step, message.queue),
        )  # fmt: skip

    def _child_result(self, child_id: str, step: Step) -> Any:
        """What the last step of the run of a child returned, or the last ones by name."""
        assert step.child is not None
        child = step.child.definition
        if child.closes is not None:
            return self.history.returned(child_id, child.closes)
        return {name: self.history.returned(child_id, name) for name in child.sinks}


def _source(step: Step) -> str:
    return f"step {step.each!r}" if isinstance(step.each, str) else "its each="
