"""The life of one message of a run in a worker: may it run, run it, and what its commit says of the run.

What is decided is in `decisions` and `plan`; here it is read from the store, and turned into the commit of the worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from localqueue.errors import LeaseLost, QueueStoreError
from localqueue.message import QueueMessage
from localqueue.stores.port import RecordWrite, Settle
from localqueue.workers.job import Job, leased_at
from localqueue.workers.outcome import Call, Outcome, Steps, cause_of
from localqueue.workflows import decisions
from localqueue.workflows.context import AsyncStepContext, Context, StepContext
from localqueue.workflows.definition import Definition
from localqueue.workflows.errors import StepRefused
from localqueue.workflows.expansions import Expansions
from localqueue.workflows.failures import Failures
from localqueue.workflows.flow import FlowContext
from localqueue.workflows.outcomes import changed, record_of, run_of
from localqueue.workflows.records import (
    SKIPPED,
    SLEEPING,
    SUCCEEDED,
    Kept,
    RunState,
    StepRecord,
    key,
)
from localqueue.workflows.step import Step
from localqueue.workflows.suspension import Suspended
from localqueue.workflows.work import EXPAND, ITEM, RUN, UNDO, Work, read_work

_AT_HAND = 100  # results that are read beforehand for a coroutine function


class StepDelivery(Expansions, Failures):
    """What a worker does with each message of a run. The worker's handler is called with a context."""

    def steps(self, job: Job, call: Call) -> Steps:
        message = job.message
        try:
            work = read_work(message.value)
            if message.run_id is None:
                raise StepRefused(f"the message of step {work.step!r} belongs to no run")
            definition = self.known.definition_for(work, self.history.header(message.run_id, message))
            state = self.history.state(message.run_id)
            match decisions.verdict(definition, work, state.value, self._looker(message.run_id)):
                case "hold":
                    return self._hold(message, state)
                case "drop":
                    return Outcome(message, "skipped", Settle(message.queue, message.id, "cancel", message.attempts))
                case "skip":
                    return self._skipped(message, definition, work)
            return (yield from self._do(job, call, definition, work, state))
        except (LeaseLost, QueueStoreError):
            raise
        except Exception as failure:
            error = cause_of(failure)
            if isinstance(error, Suspended):
                return self._suspend(message, error, job.now)
            return self._cancelled(job, error) or self._failure(message, error, job.now)

    def _do(self, job: Job, call: Call, definition: Definition, work: Work, state: Kept[RunState]) -> Steps:
        message = job.message
        match work.phase:
            case "gather":
                return self._acked(message)
            case "end":
                return self._acked(message, ends=True)
            case "collect":
                return self._collect(message, definition, work)
            case "compensate":
                return self._compensate(message, definition, state)
        step = definition.steps[work.step]
        if step.kind == "gate" or (work.phase == EXPAND and isinstance(step.each, str)):
            context = None
        else:
            context = self._context(job, definition, work, step, state)
        match work.phase:
            case "expand" if step.kind == "child":
                given = (yield self._called(call, job, context)) if step.child_input is not None else None
                if step.child_input is None:
                    given = self.history.input(run_of(message))
                return self._begin_child(message, definition, step, work, given)
            case "expand":
                items = (yield self._called(call, job, context)) if context is not None else self._items(message, step)
                return self._fan_out(message, definition, step, work, items)
        result = None if context is None else (yield self._called(call, job, context))
        if work.phase == UNDO:
            record, ends = record_of(message, SUCCEEDED), decisions.ends_run(definition, work)
            return self._undone(self._acked(message, record, work.parts, ends=ends))
        return self._succeeded(message, definition, step, work, result)

    # what a step is called with

    def _called(self, call: Call, job: Job, context: Context | None) -> Call:
        return call._replace(args=(job, self.handler, context))

    def _context(self, job: Job, definition: Definition, work: Work, step: Step, state: Kept[RunState]) -> Context:
        message = job.message
        run_id = run_of(message)
        memory = self.history.step(run_id, *work.parts) if message.attempts > 1 else None
        if memory is not None and memory.value.state != SLEEPING:  # of a try that has failed
            memory = Kept(StepRecord(SLEEPING), memory.version, memory.at)
        own = None
        if work.phase == UNDO:
            found = self.history.step(run_id, *work._replace(phase=RUN).parts)
            own = None if found is None else found.value
        kind: type[Context] = StepContext
        known: dict[str, Any] = {}
        if step.kind == "flow":
            kind = FlowContext
        elif self.known.is_async(work):
            kind = AsyncStepContext
            known = self._known_results(run_id, definition, step)
        return kind(
            job, self.history, work, definition, memory, message.tries, known, own,
            state.value.error if work.phase == UNDO else None,
        )  # fmt: skip

    def _known_results(self, run_id: str, definition: Definition, step: Step) -> dict[str, Any]:
        """The results of the steps directly above, read in this thread and not on the event loop."""
        found: dict[str, Any] = {}
        for name in step.after[:_AT_HAND]:
            kept = self.history.step(run_id, name)
            if kept is not None and kept.value.state == SUCCEEDED and kept.value.count is None:
                found[name] = definition.steps[name].read(self.history.result(kept.value))
        return found

    def _looker(self, run_id: str) -> decisions.Look:
        def look(name: str) -> StepRecord | None:
            found = self.history.step(run_id, name)
            return None if found is None else found.value

        return look

    # what becomes of it

    def _succeeded(
        self, message: QueueMessage[Any], definition: Definition, step: Step, work: Work, result: Any
    ) -> Outcome:
        record = record_of(message, SUCCEEDED)
        records: Sequence[RecordWrite] = ()
        if step.kind == "decision":
            labels = decisions.chosen(definition, step, result)
            record = changed(record, chosen=labels, result=labels)
        elif result is not None and step.settings.keep_result:
            written = self.history.values.write(key(run_of(message), *work.parts), step.write(result))
            record = changed(record, result=written.value, ref=written.ref)
            records = written.records
        if work.phase == ITEM and step.compensate is not None:
            record = changed(record, item=work.value)
        return self._acked(
            message, record, work.parts, records,
            ends=decisions.ends_run(definition, work),
            wakes=() if work.phase == ITEM else self._freed(definition, work.step, message.queue),
        )  # fmt: skip

    def _skipped(self, message: QueueMessage[Any], definition: Definition, work: Work) -> Outcome:
        record = StepRecord(SKIPPED, started_at=leased_at(message))
        outcome = self._acked(
            message, record, work.parts,
            ends=decisions.ends_run(definition, work),
            wakes=self._freed(definition, work.step, message.queue),
        )  # fmt: skip
        outcome.state = "skipped"
        return outcome
