"""What the commit of a worker says of a run: a step is done, or put aside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from localqueue.message import QueueMessage
from localqueue.stores.port import Changes, RecordWrite, Settle
from localqueue.worker_config import PersistentWorkerConfig
from localqueue.workers.delivery import Decide, Delivery
from localqueue.workers.job import leased_at
from localqueue.workers.outcome import Outcome, Steps
from localqueue.workflows import decisions
from localqueue.workflows.definition import Definition
from localqueue.workflows.errors import RunMissing
from localqueue.workflows.history import History
from localqueue.workflows.records import (
    STATE,
    STEP,
    Kept,
    RunState,
    StepRecord,
    key,
    write,
)
from localqueue.workflows.suspension import HELD, WITHOUT_END, Suspended
from localqueue.workflows.wake import run_name
from localqueue.workflows.work import UNDOES, read_work

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue
    from localqueue.workflows.crew import Known


class StepOutcomes(Delivery):
    """The outcomes of messages of runs."""

    def __init__(
        self,
        queue: PersistentQueue[Any],
        handler: Callable[..., Any],
        config: PersistentWorkerConfig,
        decide: Decide,
        known: Known,
        history: History,
        on_ended: Callable[[], object],
    ) -> None:
        super().__init__(queue, handler, config, decide)
        self._on_ended = on_ended
        self.known = known
        self.history = history

    def _acked(
        self,
        message: QueueMessage[Any],
        record: StepRecord | None = None,
        parts: Sequence[str | int] = (),
        records: Sequence[RecordWrite] = (),
        *,
        ends: bool = False,
        wakes: Sequence[str] = (),
    ) -> Outcome:
        run_id = run_of(message)
        settle = Settle(message.queue, message.id, "ack", message.attempts)
        outcome = Outcome(message, "acked", settle, wakes=wakes)
        if record is not None:
            outcome.records.append(write(STEP, key(run_id, *parts), record))
        outcome.records += records
        if ends:
            decide = partial(decisions.ended, undoing=read_work(message.value).phase in UNDOES)
            outcome.more = lambda: Changes(records=self._turn(run_id, decide))
            outcome.wakes = (*wakes, run_name(run_id), *self._behind(run_id))
            outcome.committed = lambda: self._ended(None)
        return outcome

    def _behind(self, run_id: str) -> Sequence[str]:
        """The queue of the step that waits for this run to end, if one does."""
        header = self.history.header(run_id)
        if header.parent is None:
            return ()
        try:
            above = self.history.header(header.parent)
        except RunMissing:
            return ()
        definition = self.known.definitions.get((above.workflow, above.version))
        step = None if definition is None else definition.steps.get(header.parent_step or "")
        return (above.home if step is None else step.queue,)

    def _ended(self, undone: str | None) -> Steps:
        """A run has ended, and that is committed. What is left of one that was undone never runs."""
        if undone is not None:
            self.queue.store.cancel_run(undone)
        self._on_ended()
        yield from ()

    def _turn(self, run_id: str, decide: Callable[[RunState], RunState | None]) -> list[RecordWrite]:
        """Have a run stand otherwise, as it is decided by how it stands when the commit is made."""
        state = self.history.state(run_id)
        turned = decide(state.value)
        return [] if turned is None else [write(STATE, run_id, turned, expect=state.version, tell=True)]

    def _freed(self, definition: Definition, step: str, queue: str) -> Sequence[str]:
        """Queues whose workers have to be told. One message of this queue is taken by whoever commits."""
        below = definition.dependents[step]
        if not below:
            return ()
        queues = {definition.steps[name].queue for name in below}
        return () if queues == {queue} and len(below) == 1 else sorted(queues)

    def _hold(self, message: QueueMessage[Any], state: Kept[RunState]) -> Outcome:
        """Put the message aside until the run goes on; whoever lets it go on changes the same record."""
        run_id = run_of(message)
        return self._aside(message, HELD, [write(STATE, run_id, state.value, expect=state.version)])

    def _suspend(self, message: QueueMessage[Any], suspended: Suspended, now: float) -> Outcome:
        delay = WITHOUT_END if suspended.until is None else max(suspended.until - now, 0.0)
        return self._aside(message, delay, suspended.records)

    def _aside(self, message: QueueMessage[Any], delay: float, records: Sequence[RecordWrite]) -> Outcome:
        back = Settle(message.queue, message.id, "release", message.attempts, forgive=True)
        outcome = Outcome(message, "released", back, final=True)
        outcome.more = lambda: Changes(settle=[Settle(message.queue, message.id, "release", None, delay)])
        outcome.records += records
        return outcome


def run_of(message: QueueMessage[Any]) -> str:
    """The run that a message belongs to."""
    assert message.run_id is not None
    return message.run_id


def record_of(message: QueueMessage[Any], state: str) -> StepRecord:
    """What is kept of a step that is done with this message."""
    return StepRecord(state, attempts=message.tries, started_at=leased_at(message), worker=message.leased_by)


def changed(record: StepRecord, **changes: Any) -> StepRecord:
    return msgspec.structs.replace(record, **changes)
