"""Directing a run: signals, pauses, ends and second tries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from localqueue.errors import IdTaken, RecordConflict
from localqueue.jobs import cancellation
from localqueue.stores.port import DEAD, DELAYED, INFLIGHT, Changes, Settle, StoredMessage
from localqueue.workflows import decisions, plan
from localqueue.workflows.errors import RunEnded, WorkflowError
from localqueue.workflows.records import (
    CANCELLED,
    COMPENSATED,
    COMPENSATING,
    ENDED,
    FAILED,
    RUNNING,
    SIGNAL,
    STATE,
    STEP,
    SUCCEEDED,
    RunState,
    Waiting,
    key,
    write,
)
from localqueue.workflows.suspension import is_held
from localqueue.workflows.wake import run_name, wake
from localqueue.workflows.watched import PAGE, WatchedRun
from localqueue.workflows.work import UNDOES, read_work


class DirectedRun(WatchedRun):
    """What can be asked of a run."""

    def signal(self, name: str, payload: Any = None) -> None:
        """Send the run a signal: who waits for it goes on, and who will wait for it finds it there."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"the name of a signal is a text, not {name!r}")
        written = msgspec.json.decode(msgspec.json.encode(payload))
        self._history.entry(self.id)  # it may have been forgotten since it was looked at
        while True:
            state = self._history.state(self.id).value
            if state.state in ENDED:
                raise RunEnded(f"run {self.id!r} has {_said(state)}, so it takes no signal {name!r}")
            signals, version, _ = self._history.signals(self.id, name)
            sent = msgspec.structs.replace(signals, sent=[*signals.sent, written], waiting={})
            asleep = [one for one in signals.waiting.values() if not self._runs(one)]
            changes = Changes(
                records=[write(SIGNAL, key(self.id, name), sent, expect=version)],
                settle=[Settle(one.queue, one.message, "release", None) for one in asleep],
                strict=False,
            )
            try:
                self._store.commit(changes)
            except RecordConflict:
                continue
            return self._wake(one.queue for one in asleep)

    def _runs(self, waiting: Waiting) -> bool:
        """Whether a step that waits is called just now, for another reason. It must not be taken from its worker: it
        finds the signal, or finds this record changed when it lies down again."""
        message = self._store.get(waiting.queue, waiting.message)
        return message is not None and message.state == INFLIGHT

    def pause(self) -> None:
        """Have no further step begin until `resume`, nor of runs that it has started; those that run go on."""

        def paused(state: RunState) -> RunState:
            if state.state in ENDED - {FAILED}:
                raise RunEnded(f"run {self.id!r} has {_said(state)}, so it can not be paused")
            return msgspec.structs.replace(state, paused=True)

        self._change(paused)
        for child in self._children():
            if child._history.state(child.id).value.state not in ENDED:
                child.pause()

    def resume(self) -> None:
        """Go on with a run that was paused."""
        self._change(lambda state: msgspec.structs.replace(state, paused=False))
        self._let_go()
        for child in self._children():
            child.resume()

    def cancel(self, *, compensate: bool = False) -> bool:
        """Call the run off, and the runs it has started; False when it has ended. A run that has started it fails.

        Steps that run lose their leases and are told by `ctx.cancelled`; nothing they do counts any more. With
        `compensate` what is done is undone, the last first: the run is cancelled when that is done.
        """
        return self._cancel(compensate)

    def _cancel(self, compensate: bool = False, *, parents_know: bool = False) -> bool:
        header = self._history.header(self.id)
        if self._history.state(self.id).value.state in (SUCCEEDED, CANCELLED, COMPENSATED):
            return False
        if compensate:
            if not header.compensates:
                raise WorkflowError(
                    f"workflow {header.workflow!r} has no step with compensate=, so there is nothing to undo; cancel "
                    "without compensate="
                )
            return self._undo()
        count = self._store.cancel_run(self.id)
        for child in self._children():  # behind that: no further one is begun
            child._cancel(parents_know=True)

        def cancelled(state: RunState) -> RunState | None:
            return None if state.state in (SUCCEEDED, CANCELLED, COMPENSATED) else RunState(CANCELLED)

        if self._change(cancelled, (cancellation.told(None),) if count else ()) is None:
            return False
        if header.parent is not None and not parents_know:
            self._stop_parents()
        return True

    def _stop_parents(self) -> None:
        """What has started this run can not go on without it."""
        said = {"type": "RunCancelled", "message": f"its run {self.id!r} was cancelled"}
        header = self._history.header(self.id)
        while header.parent is not None:
            above, step = DirectedRun(self._store, header.parent), header.parent_step or ""
            header = above._history.header(above.id)
            undoes = header.compensates

            def decide(state: RunState, step: str = step, undoes: bool = undoes) -> RunState | None:
                return decisions.stopped(state, undoes, step, said, undoing=False, at=self._store.now())

            above._change(decide, undo=undoes)

    def _undo(self) -> bool:
        if self._history.state(self.id).value.state == FAILED and self._is_undoing():
            self._retry_here()
            return True

        def undone(state: RunState) -> RunState | None:
            over = (SUCCEEDED, CANCELLED, COMPENSATED, COMPENSATING)
            return None if state.state in over else RunState(COMPENSATING, calls_off=True)

        if self._change(undone, undo=True) is None:
            return self._history.state(self.id).value.state == COMPENSATING
        # Not what undoes it, which may have begun by now.
        running = [one for one in self._messages() if one.state == INFLIGHT and _phase(one) not in UNDOES]
        settles = [Settle(one.queue, one.id, "cancel", one.attempts) for one in running]
        if settles:
            self._store.commit(Changes(settle=settles, records=[cancellation.told(None)], strict=False))
        self.call_off_children()
        return True

    def call_off_children(self) -> bool:
        """Have the runs that this one waits for undone, or cancelled where they undo nothing. False while one of them
        is being undone."""
        done = True
        for child in self._children():
            if child._history.state(child.id).value.state not in ENDED:
                child._cancel(child._history.header(child.id).compensates, parents_know=True)
                done = done and child._history.state(child.id).value.state in ENDED
        return done

    def _children(self) -> list[DirectedRun]:
        """The runs that this one has started and waits for."""
        return [
            DirectedRun(self._store, kept.value.child)
            for parts, kept in self._history.steps(self.id)
            if len(parts) == 1 and kept.value.child is not None and kept.value.state == RUNNING
        ]

    def retry(self) -> int:
        """Go on with a failed run from the steps that have failed, with all their tries; how many those are.

        A run that it has started and that has failed goes on, too, and so do those that have started this one.
        """
        state = self._history.state(self.id).value
        if state.state != FAILED:
            raise WorkflowError(f"run {self.id!r} is {state.state}, and only a failed run can be retried")
        top: DirectedRun = self
        while not top._is_undoing() and (above := top._failed_parent()) is not None:
            top = above
        top._require_children()
        return top._retry_here()

    def _failed_parent(self) -> DirectedRun | None:
        """The run that has started this one, if it has failed with it."""
        parent = self._history.header(self.id).parent
        if parent is None or self._history.state(parent).value.state != FAILED:
            return None
        above = DirectedRun(self._store, parent)
        return None if above._is_undoing() else above

    def _is_undoing(self) -> bool:
        """Whether a run that has failed did so while it was undone."""
        return any(_phase(message) in UNDOES for message in self._messages())

    def _require_children(self) -> None:
        """Refuse to retry what waits for a run that never will succeed."""
        for child in () if self._is_undoing() else self._children():
            state = child._history.state(child.id).value
            undoing = state.state == COMPENSATING or (state.state == FAILED and child._is_undoing())
            if undoing or state.state in (CANCELLED, COMPENSATED):
                step = child._history.header(child.id).parent_step
                raise WorkflowError(
                    f"run {self.id!r} can not be retried: run {child.id!r}, which it waits for at step {step!r}, "
                    f"{'is being undone' if undoing else f'has {_said(state)}'}; fork it at that step"
                )
            if state.state == FAILED:
                child._require_children()

    def _retry_here(self) -> int:
        """The same for this run and those that it has started. This one first: if one of them fails again at once, it
        has to hear of it."""
        undoing = self._is_undoing()
        if not undoing:
            self._forget_failures()
        count = self._requeue_dead(undoing)
        if self._change(lambda found: decisions.retried(found, undoing=undoing)) is None:
            return count
        count += self._requeue_dead(undoing)  # what has failed until then
        self._let_go()
        for child in () if undoing else self._children():
            if child._history.state(child.id).value.state == FAILED:
                count += child._retry_here()
        return count

    def _requeue_dead(self, undoing: bool) -> int:
        dead = (message for message in self._messages() if message.state == DEAD)
        return self._requeue([one for one in dead if not undoing or _phase(one) in UNDOES])

    def _requeue(self, messages: list[StoredMessage]) -> int:
        by_queue: dict[str, list[str]] = {}
        for one in messages:
            by_queue.setdefault(one.queue, []).append(one.id)
        count = sum(self._store.requeue(queue, ids) for queue, ids in by_queue.items())
        self._wake(by_queue)
        return count

    def _forget_failures(self) -> None:
        """The calls of a flow that have failed are made again."""
        failed = [
            write(STEP, key(self.id, *parts), kept.value, expect=kept.version)._replace(value=None)
            for parts, kept in self._history.steps(self.id)
            if len(parts) == 2 and kept.value.state == FAILED and kept.value.name is not None
        ]
        if failed:
            self._store.commit(Changes(records=failed))

    # how it is done

    def _change(
        self,
        decide: Callable[[RunState], RunState | None],
        records: tuple[Any, ...] = (),
        *,
        undo: bool = False,
    ) -> RunState | None:
        """Have the run stand otherwise, as it is decided by how it stands; with `undo`, have what is done undone."""
        self._history.entry(self.id)  # it may have been forgotten since it was looked at
        header = self._history.header(self.id)
        while True:
            state = self._history.state(self.id)
            turned = decide(state.value)
            if turned is None:
                return None
            changes = Changes(records=[write(STATE, self.id, turned, expect=state.version, tell=True), *records])
            if undo:
                names = (header.workflow, header.version, header.home)
                changes.enqueue = [plan.compensator(*names, self.id, self._store.mint)]
            try:
                self._store.commit(changes)
            except (RecordConflict, IdTaken):
                continue
            self._wake((run_name(self.id), *((header.home,) if undo else ())))
            return turned

    def _let_go(self) -> None:
        """Bring back the messages that were put aside while the run stood still."""
        now, queues = self._store.now(), set[str]()
        held = [one for one in self._messages() if one.state == DELAYED and is_held(one.available_at, now)]
        for n in range(0, len(held), PAGE):
            page = held[n : n + PAGE]
            queues |= {one.queue for one in page}
            settles = [Settle(one.queue, one.id, "release", None) for one in page]
            self._store.commit(Changes(settle=settles, strict=False))
        self._wake(queues)

    def _wake(self, queues: Any) -> None:
        wake(self._store, queues)


def _said(state: RunState) -> str:
    return {FAILED: "failed", CANCELLED: "been cancelled", COMPENSATED: "been undone"}.get(state.state, state.state)


def _phase(message: StoredMessage) -> str:
    return read_work(msgspec.json.decode(message.payload)).phase
