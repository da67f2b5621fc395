"""Looking at a run, and waiting for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from localqueue.errors import RunCancelled
from localqueue.queue.drafts import check_timeout
from localqueue.stores.port import QueueStore, Record, StoredMessage
from localqueue.workflows.errors import RunFailed
from localqueue.workflows.history import History
from localqueue.workflows.records import (
    CANCELLED,
    COMPENSATED,
    ENDED,
    FAILED,
    RUNNING,
    SKIPPED,
    SUCCEEDED,
    Kept,
    RunState,
    StepRecord,
)
from localqueue.workflows.status import Parts, RunStatus, StepResults, steps_of, summary
from localqueue.workflows.values import Values
from localqueue.workflows.wake import Rest
from localqueue.workflows.work import UNDONE

if TYPE_CHECKING:
    from localqueue.workflows.workflow import Workflow

PAGE = 500
_LOOK_AGAIN = 1.0  # an operator may end the messages of a run without a word to those who wait for it


class WatchedRun:
    """A run by its id, and what can be seen of it."""

    def __init__(self, store: QueueStore, run_id: str, workflow: Workflow | None = None) -> None:
        self.id = run_id
        self._store = store
        self._workflow = workflow
        self._history = History(store, Values() if workflow is None else workflow.values)

    def status(self) -> RunStatus:
        """How the run stands, and each of its steps."""
        record = self._history.entry(self.id)
        # The messages first: what a step leaves behind was written when its message went.
        messages = list(self._messages())
        return self._as_the_store_says(
            self._told(record, self._history.state(self.id), messages, now=self._store.now())
        )

    def _told(self, record: Record, state: Kept[RunState], messages: list[StoredMessage], *, now: float) -> RunStatus:
        kept = {tuple(parts): one for parts, one in self._history.steps(self.id)}
        return summary(
            self.id,
            record.updated_at,
            self._history.header(self.id),
            state,
            input=self._history.input(self.id),
            steps=steps_of(self._shape(), kept, messages, now),
            results=self._results(kept),
        )

    def _shape(self) -> Mapping[str, Any]:
        """The definition that the run follows: ours, where it is that one."""
        if self._workflow is not None:
            ours = self._workflow.definition
            if ours.digest == self._history.header(self.id).definition:
                return ours.shape
        return self._history.shape(self.id)

    def _as_the_store_says(self, status: RunStatus) -> RunStatus:
        """An operator may have cancelled or removed the messages themselves."""
        if status.state != RUNNING or status.paused:
            return status
        stats = self._store.run(self.id)
        if stats is None or stats.active or any(one.child and one.state == RUNNING for one in status.steps):
            return status
        if self._history.state(self.id).value.state != RUNNING:
            return self.status()  # it has ended meanwhile
        state = CANCELLED if stats.cancelled else FAILED
        return replace(status, state=state)

    def _results(self, steps: Mapping[Parts, Kept[StepRecord]]) -> StepResults:
        done: dict[str, Callable[[], Any]] = {}
        skipped = set()
        for parts, kept in steps.items():
            if len(parts) == 1 and kept.value.state == SUCCEEDED and not parts[0].startswith(UNDONE):
                done[parts[0]] = lambda name=parts[0], record=kept.value: self._result(name, record)  # type: ignore[misc]
            elif len(parts) == 1 and kept.value.state == SKIPPED:
                skipped.add(parts[0])
        return StepResults(done, frozenset(skipped))

    def _result(self, name: str, record: Any) -> Any:
        step = None if self._workflow is None else self._workflow.definition.steps.get(name)
        read: Callable[[Any], Any] = _same if step is None else step.read
        if record.count is None:
            return read(self._history.result(record))
        return [
            read(self._history.result(kept.value))
            for parts, kept in self._history.steps(self.id, name)
            if len(parts) == 2 and kept.value.state == SUCCEEDED
        ]

    def wait(self, timeout: float | None = None) -> RunStatus:
        """Wait until the run has succeeded, and say how it stands then.

        `RunFailed` if it failed or was undone, `RunCancelled` if it was cancelled, TimeoutError after
        `timeout` seconds.
        """
        check_timeout(timeout)
        end = None if timeout is None else time.monotonic() + timeout
        record = self._history.entry(self.id)
        with self._waiter() as rest:
            while (state := self._history.state(self.id)).value.state not in ENDED:
                left = _LOOK_AGAIN if end is None else min(end - time.monotonic(), _LOOK_AGAIN)
                if left <= 0:
                    standing = "paused" if state.value.paused else state.value.state
                    raise TimeoutError(f"run {self.id!r} is {standing} after {timeout:g} seconds")
                if not rest(left) and (status := self.status()).ended:
                    return _succeeded(status)
        if state.value.state == SUCCEEDED:  # which has no messages any more
            return self._told(record, state, [], now=state.at)
        return _succeeded(self.status())

    async def wait_async(self, timeout: float | None = None) -> RunStatus:
        """The same for coroutines."""
        return await asyncio.to_thread(self.wait, timeout)

    def _waiter(self) -> Rest:
        return Rest(self._store, self.id)

    def _messages(self) -> Iterator[StoredMessage]:
        behind: str | None = None
        while True:
            found = self._store.run_messages(self.id, after=behind, limit=PAGE)
            yield from found
            if len(found) < PAGE:
                return
            behind = found[-1].id


def _same(value: Any) -> Any:
    return value


def _succeeded(status: RunStatus) -> RunStatus:
    if status.state == CANCELLED:
        raise RunCancelled(f"run {status.run_id!r} was cancelled")
    if status.state in (FAILED, COMPENSATED):
        said = "failed" if status.state == FAILED else "failed and was undone"
        raise RunFailed(status.run_id, said, status.failed_step, status.error)
    return status
