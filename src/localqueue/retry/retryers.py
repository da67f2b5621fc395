"""The retryers: Tenacity's, with attempts that are counted by key and across restarts.

A call takes a copy of the retryer and keeps its state to itself, so one object serves any number of threads and tasks.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Unpack, cast

import tenacity
from tenacity import AttemptManager, DoAttempt, DoSleep

from localqueue.interrupts import is_cut_off
from localqueue.retry.call_state import PersistentCallState
from localqueue.retry.decision import drive, drive_async
from localqueue.retry.options import PersistentRetryOptions
from localqueue.retry.persistent import Persistent
from localqueue.retry.retried import P, R, Retried


class PersistentRetrying(Persistent, tenacity.Retrying):
    """Tenacity's `Retrying` that goes on counting after a restart.

    Each failed attempt is recorded under the call's key (`key`, or `key_fn(fn, args, kwargs)`) in `store`, in the
    SQLite file `store_path`, or in the default store. A key whose budget is used up raises `PersistentRetryExhausted`
    before the function is called; success forgets it, unless `clear_on_success` is False. Strategies and callbacks see
    the attempt number and the start time of the key. Plain settings are those of workers: `max_tries=3, wait=0.5,
    backoff=2, max_delay=30, jitter=0.1, retry=ConnectionError`; all other arguments are Tenacity's.
    """

    def __call__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self._for_one_call()._call(fn, args, kwargs)

    def _call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if not getattr(self, "enabled", True):
            return fn(*args, **kwargs)
        state = self._state(fn, args, kwargs)
        for _ in self._attempts(state):
            try:
                result = fn(*args, **kwargs)
            except BaseException:
                state.set_exception(sys.exc_info())
            else:
                state.set_result(result)
        return _conclude(state)

    def _attempts(self, state: PersistentCallState) -> Iterator[None]:
        """Yields before each attempt, sleeps after it, and leaves the conclusion on the state."""
        while True:
            do = drive(self._next(state))
            if isinstance(do, DoAttempt):
                yield
            elif isinstance(do, DoSleep):
                state.prepare_for_next_attempt()
                self.sleep(do)
            else:
                state.conclusion = do
                return

    def iter(self, retry_state: tenacity.RetryCallState) -> Any:
        """One step, as Tenacity has it: `DoAttempt`, `DoSleep`, or the result."""
        do = drive(self._next(_ours(retry_state)))
        return do if isinstance(do, DoAttempt | DoSleep) else do()

    def __iter__(self) -> Iterator[AttemptManager]:  # type: ignore[override]
        """`for attempt in retryer: with attempt: ...`; needs `key=`."""
        call = self._for_one_call()
        state = call._state(None, (), {})
        for _ in call._attempts(state):
            yield AttemptManager(state)
        _conclude(state)

    def wraps(self, f: Callable[P, R]) -> Retried[P, R]:  # type: ignore[override]
        """The function, retried. It has `retry` (this object), `retry_with(**changes)` and `statistics`."""

        @functools.wraps(f, (*functools.WRAPPER_ASSIGNMENTS, "__defaults__", "__kwdefaults__"))
        def retried(*args: Any, **kwargs: Any) -> Any:
            call = self._for_one_call()
            retried.statistics = call.statistics  # type: ignore[attr-defined]
            return call._call(f, args, kwargs)

        return cast("Retried[P, R]", _equip(retried, self, f))


class PersistentAsyncRetrying(Persistent, tenacity.AsyncRetrying):
    """`PersistentRetrying` for coroutine functions. Strategies and callbacks may be coroutine functions too.

    The attempt store is used in threads, so that the event loop never waits for it.
    """

    async def __call__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:  # type: ignore[override]
        return await self._for_one_call()._call(fn, args, kwargs)

    async def _call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if not getattr(self, "enabled", True):
            return await _awaited(fn(*args, **kwargs))
        state = self._state(fn, args, kwargs)
        async for _ in self._attempts(state):
            try:
                result = await _awaited(fn(*args, **kwargs))
            except BaseException as error:
                if is_cut_off(error):
                    raise
                state.set_exception(sys.exc_info())
            else:
                state.set_result(result)
        return _conclude(state)

    async def _attempts(self, state: PersistentCallState) -> AsyncIterator[None]:
        while True:
            do = await drive_async(self._next(state))
            if isinstance(do, DoAttempt):
                yield
            elif isinstance(do, DoSleep):
                state.prepare_for_next_attempt()
                await _awaited(self.sleep(do))
            else:
                state.conclusion = do
                return

    async def iter(self, retry_state: tenacity.RetryCallState) -> Any:
        """One step, as Tenacity has it: `DoAttempt`, `DoSleep`, or the result."""
        do = await drive_async(self._next(_ours(retry_state)))
        return do if isinstance(do, DoAttempt | DoSleep) else do()

    def __aiter__(self) -> AsyncIterator[AttemptManager]:  # type: ignore[override]
        """`async for attempt in retryer: with attempt: ...`; needs `key=`."""
        return self._managed()

    async def _managed(self) -> AsyncIterator[AttemptManager]:
        call = self._for_one_call()
        state = call._state(None, (), {})
        async for _ in call._attempts(state):
            yield AttemptManager(state)
        _conclude(state)

    def wraps(self, fn: Callable[P, R]) -> Retried[P, R]:  # type: ignore[override]
        """The coroutine function, retried. It has `retry` (this object), `retry_with(**changes)` and `statistics`."""

        @functools.wraps(fn, (*functools.WRAPPER_ASSIGNMENTS, "__defaults__", "__kwdefaults__"))
        async def retried(*args: Any, **kwargs: Any) -> Any:
            call = self._for_one_call()
            retried.statistics = call.statistics  # type: ignore[attr-defined]
            return await call._call(fn, args, kwargs)

        return cast("Retried[P, R]", _equip(retried, self, fn))


def persistent_retry(**options: Unpack[PersistentRetryOptions]) -> Callable[[Callable[P, R]], Retried[P, R]]:
    """Decorate a function with a `PersistentRetrying` of these arguments."""
    return PersistentRetrying(**options).wraps


def persistent_async_retry(**options: Unpack[PersistentRetryOptions]) -> Callable[[Callable[P, R]], Retried[P, R]]:
    """Decorate a coroutine function with a `PersistentAsyncRetrying` of these arguments."""
    return PersistentAsyncRetrying(**options).wraps


def _equip(retried: Any, retryer: Persistent, fn: Callable[..., Any]) -> Any:
    def retry_with(**changes: Unpack[PersistentRetryOptions]) -> Any:
        return retryer.copy(**changes).wraps(fn)

    retried.retry = retryer
    retried.retry_with = retry_with
    retried.statistics = {}
    return retried


def _ours(state: tenacity.RetryCallState) -> PersistentCallState:
    if not isinstance(state, PersistentCallState):
        raise TypeError(
            "a persistent retryer needs its own call state, with the key of the call; call the retryer, decorate with "
            "it, or iterate over it"
        )
    return state


def _conclude(state: PersistentCallState) -> Any:
    assert state.conclusion is not None
    return state.conclusion()


async def _awaited(answer: Any) -> Any:
    return await answer if inspect.isawaitable(answer) else answer
