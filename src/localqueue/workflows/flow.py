"""Durable functions: a coroutine function whose finished steps are remembered, and not called again.

Whatever a flow asks of its context has a position, in the order in which it asks. When the flow is called again, after
a sleep, a signal or the death of its worker, what stands recorded at a position is the answer.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from functools import lru_cache
from typing import Any, TypeVar, Unpack

from localqueue.errors import JobCancelled, RecordConflict
from localqueue.policies._limits import require_seconds
from localqueue.retry.options import refuse_unknown
from localqueue.retry.plan import Retry, is_permanent, next_step
from localqueue.stores.kept_error import describe_error
from localqueue.stores.port import Changes
from localqueue.tasks.settings import TaskSettings
from localqueue.tasks.signature import TaskSignature
from localqueue.tasks.task import task_name
from localqueue.workflows.context import Context, off_loop
from localqueue.workflows.errors import OrderChanged, StepFailed, WorkflowError
from localqueue.workflows.options import CallOptions
from localqueue.workflows.records import FAILED, SLEEPING, STEP, SUCCEEDED, Kept, StepRecord, key, write
from localqueue.workflows.step import Step
from localqueue.workflows.suspension import Suspended, together

R = TypeVar("R")

RETRYING = "retrying"


class Asked(Awaitable[Any]):
    """Something that a flow has asked for. It has its position, and is done when it is awaited."""

    def __init__(self, do: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self._do = do

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._do().__await__()


class FlowContext(Context):
    """What a flow can see of its run, and ask of it."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._position = 0
        self._calls: dict[int, Kept[StepRecord]] = {
            int(parts[1]): kept for parts, kept in self._history.steps(self.run_id, self.work.step) if len(parts) == 2
        }

    def step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Asked:
        """Call a function once, durably: what it returned is kept, and a flow that is called again gets it.

        Functions run in a thread, coroutine functions on the event loop. A failure is tried again as for tasks, by the
        options that `options(...)` sets; one that stays is `StepFailed`, which the flow may catch.
        """
        return self._ask_step(function, args, kwargs, _DEFAULTS, None)

    def options(self, *, name: str | None = None, **options: Unpack[CallOptions]) -> Caller:
        """The same with options for the call: `ctx.options(retries=5, timeout=10).step(charge, order)`."""
        refuse_unknown(self.options, options, CallOptions.__annotations__)
        return Caller(self, TaskSettings(**options), name)

    def sleep(self, seconds: float) -> Asked:
        """Go on in so many seconds, however often workers are restarted; nothing is held meanwhile."""
        require_seconds("seconds", seconds)
        position = self._take("sleep")
        return Asked(lambda: self._asleep(position, seconds))

    def wait_for(self, name: str, *, timeout: float | None = None) -> Asked:
        """Wait for the signal `name` and return what came with it; `SignalTimeout` after `timeout` seconds. A flow that
        waits several times for one name gets one signal each."""
        position = self._take(f"wait for {name}")
        waiter = self._waiter(name, timeout, position[0])
        return Asked(lambda: self._signalled(position, name, timeout, waiter))

    def gather(self, *asked: Asked) -> Asked:
        """Several steps, sleeps or waits at the same time; a list of what each gave. The first failure is raised when
        all have ended."""
        for one in asked:
            if not isinstance(one, Asked):
                raise TypeError(f"ctx.gather takes what ctx.step, ctx.sleep and ctx.wait_for return, not {one!r}")
        return Asked(lambda: _all(asked))

    # how it is done

    def finish(self) -> None:
        """The flow has returned: there must be nothing recorded that it has not asked for this time."""
        left = [number for number in self._calls if number >= self._position]
        if left:
            name = self._calls[min(left)].value.name
            raise OrderChanged(
                f"flow {self.name!r} of run {self.run_id!r} ended after {self._position} calls, and had made call "
                f"{min(left) + 1} ({name!r}) before; a flow asks in the same order each time: give changed code a new "
                "version"
            )

    def _ask_step(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], settings: TaskSettings, name: str | None
    ) -> Asked:
        if isinstance(function, Step):
            raise TypeError(f"ctx.step calls a function, and {function!r} is a step of a workflow; pass its function")
        if not callable(function):
            raise TypeError(f"ctx.step takes a function and its arguments, not {function!r}")
        position = self._take(name or task_name(function))
        return Asked(lambda: self._called(position, function, args, kwargs, settings))

    def _take(self, name: str) -> tuple[int, str]:
        number = self._position
        self._position += 1
        known = self._calls.get(number)
        if known is not None and known.value.name != name:
            raise OrderChanged(
                f"call {number + 1} of flow {self.work.step!r} in run {self.run_id!r} was {known.value.name!r} and is "
                f"{name!r} now; a flow asks in the same order each time, so what it decides by must not change: give "
                "changed code a new version"
            )
        return number, name

    async def _called(
        self,
        position: tuple[int, str],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        settings: TaskSettings,
    ) -> Any:
        number, name = position
        known = self._calls.get(number)
        if known is not None:
            match known.value.state:
                case "succeeded":
                    return _signature(function).read_result(await off_loop(self._history.result, known.value))
                case "failed":
                    raise StepFailed(name, known.value.error)
                case "retrying" if (known.value.until or 0.0) > self._job.now:
                    raise Suspended(known.value.until, (), f"{name!r} is tried again later")
        tried = 0 if known is None else known.value.attempts
        started_at = self._job.now
        first = started_at if known is None else known.value.started_at
        try:
            result = await _perform(function, args, kwargs, settings.timeout)
            written = _signature(function).write_result(result)
        except (JobCancelled, asyncio.CancelledError):
            raise
        except Exception as error:
            described = describe_error(error)
            step = (
                next_step(settings.retry(), attempt=tried + 1, started_at=first, now=self._job.now, error=error)
                if not is_permanent(error)
                else None
            )
            record = StepRecord(
                RETRYING if isinstance(step, Retry) else FAILED,
                name=name, attempts=tried + 1, started_at=first, error=described, worker=self._job.message.leased_by,
            )  # fmt: skip
            if isinstance(step, Retry):
                until = self._job.now + step.delay
                record = _with(record, until=until)
                raise Suspended(until, [self._at(number, record)], f"{name!r} is tried again") from error
            await off_loop(self._keep, number, record, ())
            raise StepFailed(name, described) from error
        kept = self._history.values.write(key(self.run_id, self.work.step, number), written)
        record = StepRecord(
            SUCCEEDED, kept.value, kept.ref, tried + 1, first, worker=self._job.message.leased_by, name=name
        )
        recorded = await off_loop(self._keep, number, record, kept.records)
        if recorded is record:
            return result
        return _signature(function).read_result(await off_loop(self._history.result, recorded))

    def _keep(self, number: int, record: StepRecord, records: Any) -> StepRecord:
        """Write down what a call gave. If somebody else has, theirs counts: there is one result for each call."""
        self.check_cancelled()
        try:
            done = self._history.store.commit(Changes(records=[self._at(number, record), *records]))
        except RecordConflict:
            found = self._history.step(self.run_id, self.work.step, number)
            if found is None or found.value.state not in (SUCCEEDED, FAILED):
                raise JobCancelled(self._job.message.queue, self._job.message.id) from None
            self._calls[number] = found
            if found.value.state == FAILED:
                raise StepFailed(found.value.name or "", found.value.error) from None
            return found.value
        self._calls[number] = Kept(record, done.versions[0], self._job.now)
        return record

    def _at(self, number: int, record: StepRecord) -> Any:
        known = self._calls.get(number)
        version = 0 if known is None else known.version
        return write(STEP, key(self.run_id, self.work.step, number), record, expect=version)

    async def _asleep(self, position: tuple[int, str], seconds: float) -> None:
        number, name = position
        known = self._calls.get(number)
        now = self._job.now
        if known is not None and known.value.until is not None:
            if now >= known.value.until:
                return
            raise Suspended(known.value.until, (), name)
        until = now + seconds
        record = StepRecord(SLEEPING, name=name, until=until, started_at=now)
        raise Suspended(until, [self._at(number, record)], f"sleeps for {seconds:g} seconds")

    async def _signalled(self, position: tuple[int, str], name: str, timeout: float | None, waiter: str) -> Any:
        number, called = position
        try:
            return await off_loop(self._wait_for, name, timeout, waiter)
        except Suspended as suspended:
            if number in self._calls:
                raise
            record = StepRecord(SLEEPING, name=called, started_at=self._job.now, until=suspended.until)
            raise Suspended(suspended.until, [*suspended.records, self._at(number, record)], suspended.what) from None


class Caller:
    """Makes one call of a flow with options of its own."""

    def __init__(self, context: FlowContext, settings: TaskSettings, name: str | None) -> None:
        self._context = context
        self._settings = settings
        self._name = name

    def step(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Asked:
        """See `FlowContext.step`."""
        return self._context._ask_step(function, args, kwargs, self._settings, self._name)


_DEFAULTS = TaskSettings()


async def _all(asked: tuple[Asked, ...]) -> list[Any]:
    """Await all of them, whatever becomes of one. What suspends some of them suspends the flow when the others end."""

    async def one(each: Asked) -> tuple[Any, BaseException | None]:
        try:
            return await each, None
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return None, error

    answers = await asyncio.gather(*(one(each) for each in asked))
    suspended = [error for _, error in answers if isinstance(error, Suspended)]
    if suspended:
        raise together(suspended)
    for _, error in answers:
        if error is not None:
            raise error
    return [result for result, _ in answers]


async def _perform(function: Callable[..., Any], args: Any, kwargs: Any, timeout: float | None) -> Any:
    try:
        async with asyncio.timeout(timeout) as clock:
            if inspect.iscoroutinefunction(function):
                return await function(*args, **kwargs)
            result = await asyncio.to_thread(function, *args, **kwargs)
            return await result if inspect.isawaitable(result) else result
    except TimeoutError:
        if clock.expired():
            raise TimeoutError(f"the step did not finish within {timeout} seconds") from None
        raise


@lru_cache(1024)
def _signature(function: Callable[..., Any]) -> TaskSignature:
    try:
        return TaskSignature(getattr(function, "__name__", repr(function)), function)
    except (ValueError, TypeError) as error:  # a function that is not written in Python
        raise WorkflowError(f"{function!r} can not be a step: {error}; wrap it in a function") from error


def _with(record: StepRecord, **changes: Any) -> StepRecord:
    import msgspec

    return msgspec.structs.replace(record, **changes)
