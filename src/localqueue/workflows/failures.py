"""Runs that fail, and what is done about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from localqueue.errors import RunCancelled
from localqueue.message import QueueMessage
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import Changes, Settle
from localqueue.workers.outcome import Outcome
from localqueue.workflows import decisions, plan
from localqueue.workflows.definition import Definition
from localqueue.workflows.directed import DirectedRun
from localqueue.workflows.errors import RunMissing, StepRefused, UnknownVersion
from localqueue.workflows.outcomes import StepOutcomes, changed, record_of, run_of
from localqueue.workflows.records import (
    FAILED,
    STEP,
    SUCCEEDED,
    Kept,
    RunHeader,
    RunState,
    key,
    write,
)
from localqueue.workflows.wake import run_name
from localqueue.workflows.work import EXPAND, ITEM, RUN, UNDO, UNDOES, UNDONE, Work, read_work

_LOOK_AGAIN = (0.02, 1.0)  # seconds between looks whether other steps still run, growing


class Failures(StepOutcomes):
    """Failing a run with its step, and undoing what is done."""

    def failure(self, message: QueueMessage[Any], error: BaseException, now: float) -> Outcome:
        if isinstance(error, RunCancelled):  # the commit was refused: a run that it adds to is being cancelled
            settle = Settle(message.queue, message.id, "dead-letter", message.attempts, 0.0, describe_error(error))
            return Outcome(message, "dead-lettered", settle, error=error, permanent=True)
        return super().failure(message, error, now)

    def _failure(self, message: QueueMessage[Any], error: BaseException, now: float) -> Outcome:
        decision = self._decide(message, error, now)
        described = describe_error(error)
        if decision.state == "released":
            settle = Settle(message.queue, message.id, "release", message.attempts, decision.delay, described)
            return Outcome(message, "released", settle, error=error, final=False)
        settle = Settle(message.queue, message.id, "dead-letter", message.attempts, 0.0, described)
        outcome = Outcome(message, "dead-lettered", settle, error=error, permanent=decision.permanent)
        if message.run_id is not None:
            # A worker that lacks the version says nothing about the steps: the run goes on with one that has it.
            self._stop_run(outcome, message, described, now, undoes=not isinstance(error, UnknownVersion))
        return outcome

    def _stop_run(
        self,
        outcome: Outcome,
        message: QueueMessage[Any],
        described: Mapping[str, Any] | None,
        now: float,
        *,
        undoes: bool,
    ) -> None:
        """The run has failed by this step, and with it those that wait for it."""
        run_id: str | None = message.run_id
        assert run_id is not None
        try:
            work = read_work(message.value)
            self.history.header(run_id)
        except (StepRefused, RunMissing):  # no run that could fail by it
            return
        record = changed(
            record_of(message, FAILED),
            error=None if described is None else dict(described),
            item=work.value if work.phase == ITEM else None,
        )
        if work.phase in (RUN, ITEM, UNDO, EXPAND):
            outcome.records.append(write(STEP, key(run_id, *work.parts), record))
        stops = list(self._stopped(run_id, work, described, now, undoes))
        outcome.wakes = [name for one in stops for name in (run_name(one.run_id), one.header.home)]

        def more() -> Changes:
            changes = Changes()
            for one in stops:
                turned = self._turn(one.run_id, one.decide)
                changes.records = [*changes.records, *turned]
                if turned and one.compensates:
                    header, mint = one.header, self.queue.store.mint
                    added = plan.compensator(header.workflow, header.version, header.home, one.run_id, mint)
                    changes.enqueue = [*changes.enqueue, added]
            return changes

        outcome.more = more

    def _stopped(
        self, run_id: str | None, work: Work, error: Mapping[str, Any] | None, now: float, undoes: bool
    ) -> Iterator[_Stop]:
        """The run, and those that have started it."""
        step, undoing = work.step, work.phase in UNDOES
        while run_id is not None:
            header = self.history.header(run_id)
            compensates = header.compensates and undoes
            decide = partial(
                decisions.stopped, compensates=compensates, step=step, error=error, undoing=undoing, at=now
            )
            yield _Stop(run_id, header, decide, compensates and not undoing)
            if undoing:
                return
            step, run_id = header.parent_step or "", header.parent

    def _compensate(self, message: QueueMessage[Any], definition: Definition, state: Kept[RunState]) -> Outcome:
        """When nothing of the run is under way any more, nor of those it has started, have what is done undone."""
        run_id, store = run_of(message), self.queue.store
        stats = store.run(run_id)
        starts = any(step.child is not None for step in definition.steps.values())
        if (stats is not None and stats.inflight > 1) or (
            starts and not DirectedRun(store, run_id).call_off_children()
        ):
            shortest, longest = _LOOK_AGAIN
            return self._aside(message, min(shortest * 2 ** min(message.attempts, 20), longest), ())
        records = [] if definition.flow is not None else list(self.history.steps(run_id))
        before = {tuple(parts) for parts, kept in records if kept.value.state == SUCCEEDED}
        done = [
            (parts[0], int(parts[1]) if len(parts) == 2 else None, kept.value, kept.at)
            for parts, kept in records
            if (f"{UNDONE}{parts[0]}", *parts[1:]) not in before  # by an earlier one, that did not get to the end
        ]
        undone = plan.undo_chain(definition, run_id, done, store.mint)
        if not undone:
            return self._undone(self._acked(message, ends=True))
        outcome = self._acked(message, wakes=(undone[0].queue,))
        outcome.more = lambda: Changes(enqueue=plan.undo_chain(definition, run_id, done, store.mint))
        return outcome

    def _undone(self, outcome: Outcome) -> Outcome:
        """What is left of a run that was undone never runs."""
        run_id = run_of(outcome.message)
        if outcome.committed is not None:
            outcome.committed = lambda: self._ended(run_id)
        return outcome


class _Stop(NamedTuple):
    """A run that fails with a step: how it stands then, and whether what is done is undone."""

    run_id: str
    header: RunHeader
    decide: Callable[[RunState], RunState | None]
    compensates: bool
