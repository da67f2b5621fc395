"""What a step is called with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, overload

import msgspec

from localqueue.errors import JobCancelled, RecordConflict
from localqueue.policies._limits import require_integer, require_seconds
from localqueue.stores.port import Changes, RecordWrite
from localqueue.workers.job import Job
from localqueue.workflows.errors import SignalTimeout, StepSkipped, WorkflowError
from localqueue.workflows.history import History
from localqueue.workflows.records import (
    SIGNAL,
    SKIPPED,
    SLEEPING,
    STEP,
    SUCCEEDED,
    Kept,
    StepRecord,
    Waiting,
    key,
    write,
)
from localqueue.workflows.suspension import Suspended
from localqueue.workflows.work import Work

if TYPE_CHECKING:
    from localqueue.workflows.definition import Definition
    from localqueue.workflows.step import Step

_MISSING: Any = object()


class Context:
    """What a step can see of its run, and ask of it. One for each try of each step."""

    def __init__(
        self,
        job: Job,
        history: History,
        work: Work,
        definition: Definition,
        memory: Kept[StepRecord] | None,
        attempt: int,
        known: Mapping[str, Any] | None = None,
        own: StepRecord | None = None,
        error: Mapping[str, Any] | None = None,
    ) -> None:
        run_id = job.message.run_id
        assert run_id is not None
        self.run_id = run_id
        self.workflow = work.workflow
        self.version = work.version
        #: the name of the step
        self.name = work.step
        self.index = work.item
        self.attempt = attempt
        #: in a compensation: why the run is undone
        self.error = None if error is None else dict(error)
        self.work = work
        self._job = job
        self._history = history
        self._definition = definition
        self._memory = memory
        self._known = dict(known or {})
        self._own = own
        self._slept = 0
        self._waits: dict[str, list[str]] = {}

    @property
    def input(self) -> Any:
        """What the run was started with. Changing it changes nothing for others."""
        return self._history.input(self.run_id)

    @property
    def key(self) -> str:
        """A name for what this step does in this run, the same at each try: an idempotency key for others."""
        return "/".join((self.run_id, *map(str, self.work.parts)))

    @property
    def declared(self) -> Step:
        """The step as it was declared."""
        return self._definition.steps[self.name]

    @property
    def item(self) -> Any:
        """The item of a fan-out that this call is for."""
        if self.index is None:
            raise WorkflowError(f"step {self.name!r} is called once and not for each item; declare it with each=")
        return self.work.value

    @property
    def items(self) -> list[Any]:
        """The items that this call is for, of a fan-out with batch=."""
        items = self.item
        if self.declared.batch is None:
            raise WorkflowError(
                f"step {self.name!r} is called for one item at a time, ctx.item; declare it with batch="
            )
        return list(items)

    @property
    def output(self) -> Any:
        """In a compensation: what the step that is undone has returned."""
        if self._own is None:
            raise WorkflowError("ctx.output is what a compensation undoes; other steps have ctx.result(name)")
        return self._read(self.name, self._own)

    def ran(self, name: str) -> bool:
        """Whether a step has run, and was not skipped."""
        record = self._record(name)
        return record is not None and record.state == SUCCEEDED

    @overload
    def result(self, name: str) -> Any: ...
    @overload
    def result(self, name: str, default: Any) -> Any: ...
    def result(self, name: str, default: Any = _MISSING) -> Any:
        """What a step returned; of a fan-out the list of what its items did, of a child what its last step did.

        A step that was skipped has none: that is `default`, or else `StepSkipped`.
        """
        if name in self._known:
            return self._known[name]
        record = self._record(name)
        if record is None or record.state == SKIPPED:
            if default is not _MISSING:
                return default
            if record is None:
                raise WorkflowError(f"step {name!r} is not done yet; let step {self.name!r} come after it")
            raise StepSkipped(f"step {name!r} was skipped; ask ctx.ran({name!r}) first, or pass a default")
        if record.count is not None:
            return self.results(name)
        return self._read(name, record)

    def results(self, name: str) -> list[Any]:
        """What the items of a fan-out returned, in the order of the items."""
        if self._step(name).kind != "map":
            raise WorkflowError(f"step {name!r} is no fan-out; ask for ctx.result({name!r})")
        return [
            self._read(name, kept.value)
            for parts, kept in self._history.steps(self.run_id, name)
            if len(parts) == 2 and kept.value.state == SUCCEEDED
        ]

    def _record(self, name: str) -> StepRecord | None:
        self._step(name)
        found = self._history.step(self.run_id, name)
        return None if found is None or found.value.state not in (SUCCEEDED, SKIPPED) else found.value

    def _step(self, name: str) -> Step:
        step = self._definition.steps.get(name)
        if step is None:
            raise WorkflowError(
                f"workflow {self.workflow!r} version {self.version} has no step {name!r} (it has "
                f"{', '.join(list(self._definition.steps)[:20])})"
            )
        return step

    def _read(self, name: str, record: StepRecord) -> Any:
        return self._step(name).read(self._history.result(record))

    # what a step asks of its worker

    @property
    def cancelled(self) -> bool:
        """Whether the result is not wanted any more: the run was cancelled, or the lease of the step was lost."""
        return self._job.cancelled

    def check_cancelled(self) -> None:
        """Raise `JobCancelled` if the result is not wanted any more."""
        self._job.check_cancelled()

    def progress(self, fraction: float, note: str | None = None) -> None:
        """Tell how far the step has come, from 0 to 1."""
        self._job.progress(fraction, note)

    def log(self, text: str) -> None:
        """Say something about the step."""
        self._job.log(text)

    # what puts it aside

    def _waiter(self, name: str, timeout: float | None, number: int | None = None) -> str:
        """Take the next turn among the waits for a signal, when it is asked for: the name of the one who waits."""
        if not isinstance(name, str) or not name:
            raise TypeError(f"the name of a signal is a text, not {name!r}")
        if timeout is not None:
            require_seconds("timeout", timeout)
        waits = self._waits.setdefault(name, [])
        waits.append(f"{'/'.join(map(str, self.work.parts))}#{len(waits) if number is None else number}")
        return waits[-1]

    def _wait_for(self, name: str, timeout: float | None, waiter: str) -> Any:
        before = self._waits[name][: self._waits[name].index(waiter)]
        while True:
            signals, version, _ = self._history.signals(self.run_id, name)
            if waiter in signals.late:
                raise SignalTimeout(self.run_id, name)
            turn = sum(one not in signals.late for one in before)  # who has given up has taken none
            if turn < len(signals.sent):
                return signals.sent[turn]
            waiting = signals.waiting.get(waiter)
            now = self._job.now
            new = None if timeout is None else now + timeout
            deadline = new if waiting is None else waiting.deadline
            left = {one: other for one, other in signals.waiting.items() if one != waiter}
            if deadline is None or now < deadline:
                message = self._job.message
                left[waiter] = Waiting(message.queue, message.id, deadline)
                record = write(SIGNAL, key(self.run_id, name), _with(signals, waiting=left), expect=version)
                raise Suspended(deadline, [record], f"waits for the signal {name!r}")
            late = write(
                SIGNAL,
                key(self.run_id, name),
                _with(signals, waiting=left, late=[*signals.late, waiter]),
                expect=version,
            )
            try:
                self._history.store.commit(Changes(records=[late]))
            except RecordConflict:  # it has come after all, or somebody else gave up on it
                continue
            raise SignalTimeout(self.run_id, name)

    def _sleep(self, seconds: float) -> None:
        require_seconds("seconds", seconds)
        turn = self._slept
        self._slept += 1
        memory = StepRecord(SLEEPING) if self._memory is None else self._memory.value
        now = self._job.now
        until = memory.sleeps[turn] if turn < len(memory.sleeps) else now + seconds
        if now >= until:
            return
        sleeps = [*memory.sleeps[:turn], until]
        asleep = _with(memory, state=SLEEPING, sleeps=sleeps, until=until, attempts=self._job.message.attempts)
        raise Suspended(until, [self._remembering(asleep)], f"sleeps for {seconds:g} seconds")

    @property
    def cursor(self) -> Any:
        """What the last `checkpoint` of this step has kept, in this try or an earlier one; None before the first."""
        return None if self._memory is None else self._memory.value.cursor

    def _checkpoint(self, cursor: Any) -> None:
        attempts = self._job.message.attempts
        while True:
            self.check_cancelled()
            memory = StepRecord(SLEEPING) if self._memory is None else self._memory.value
            version = 0 if self._memory is None else self._memory.version
            value = _with(memory, cursor=cursor, attempts=attempts)
            try:
                done = self._history.store.commit(Changes(records=[self._remembering(value)]))
            except RecordConflict:
                found = self._history.step(self.run_id, *self.work.parts)
                if found is not None and (found.value.attempts > attempts or found.value.state == SUCCEEDED):
                    raise JobCancelled(self._job.message.queue, self._job.message.id) from None
                if found is not None and found.version == version:
                    raise
                self._memory = found  # of a try that has lost its lease, and may not overrule this one
                continue
            self._memory = Kept(value, done.versions[0], self._job.now)
            return

    def _remembering(self, value: StepRecord) -> RecordWrite:
        version = 0 if self._memory is None else self._memory.version
        record: RecordWrite = write(STEP, key(self.run_id, *self.work.parts), value, expect=version)
        return record

    def _numbered(self, every: int) -> Iterator[tuple[int | None, Any]]:
        """The rows from the cursor on, and after each `every` of them how far that is."""
        if require_integer("every", every) < 1:
            raise ValueError(f"every must be at least 1, not {every}")
        items = self.items
        for n in range(self.cursor or 0, len(items)):
            yield (n + 1 if (n + 1) % every == 0 and n + 1 < len(items) else None), items[n]


class StepContext(Context):
    """The context of a function."""

    def wait_for(self, name: str, *, timeout: float | None = None) -> Any:
        """Wait until the run is sent the signal `name`, and return what came with it; `SignalTimeout` when it did not
        come within `timeout` seconds.

        Nothing is held meanwhile: the step is put aside, and called again from its beginning. So it waits before it
        does anything that must not be done twice. A step that waits several times for one name gets one signal each.
        """
        return self._wait_for(name, timeout, self._waiter(name, timeout))

    def sleep(self, seconds: float) -> None:
        """Go on in so many seconds, however often workers are restarted. The step is put aside like by `wait_for`."""
        self._sleep(seconds)

    def checkpoint(self, cursor: Any) -> None:
        """Keep how far the step has come: if it is begun again, by a retry or another worker, it finds it in
        `cursor`. Raises `JobCancelled` when another worker has the step by now."""
        self._checkpoint(msgspec.json.decode(msgspec.json.encode(cursor)))

    def rows(self, every: int = 50) -> Iterator[Any]:
        """The items of a batch from where an earlier try has left off, with a checkpoint after each `every`."""
        for number, row in self._numbered(every):
            yield row
            if number is not None:
                self._checkpoint(number)


class AsyncStepContext(Context):
    """The context of a coroutine function: the same, with an await before what asks the store.

    What the steps directly above returned is at hand; asking for that of others reads the store on the event loop.
    """

    async def wait_for(self, name: str, *, timeout: float | None = None) -> Any:
        """See `StepContext.wait_for`."""
        return await off_loop(self._wait_for, name, timeout, self._waiter(name, timeout))

    async def sleep(self, seconds: float) -> None:
        """See `StepContext.sleep`."""
        self._sleep(seconds)

    async def checkpoint(self, cursor: Any) -> None:
        """See `StepContext.checkpoint`."""
        await asyncio.to_thread(self._checkpoint, msgspec.json.decode(msgspec.json.encode(cursor)))

    async def rows(self, every: int = 50) -> AsyncIterator[Any]:
        """See `StepContext.rows`: `async for row in ctx.rows()`."""
        for number, row in self._numbered(every):
            yield row
            if number is not None:
                await self.checkpoint(number)


async def off_loop(function: Any, *args: Any) -> Any:
    """Call in a thread. What suspends a step is no Exception, which a future would not carry everywhere."""

    def call() -> tuple[Any, BaseException | None]:
        try:
            return function(*args), None
        except BaseException as error:
            return None, error

    result, error = await asyncio.to_thread(call)
    if error is not None:
        raise error
    return result


def _with(record: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(record, **changes)
