"""Which exceptions ask the process or the task to end, and so say nothing about the work at hand."""

from __future__ import annotations


def is_interrupt(error: BaseException) -> bool:
    """Whether somebody wants the process to stop: Ctrl-C, also inside of a group."""
    return _is_or_holds(error, KeyboardInterrupt)


def asks_to_end(error: BaseException) -> bool:
    """Whether the process is to end: by Ctrl-C, or because the code that ran says so."""
    return _is_or_holds(error, (KeyboardInterrupt, SystemExit))


def _is_or_holds(error: BaseException, kinds: type[BaseException] | tuple[type[BaseException], ...]) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(kinds) is not None
    return isinstance(error, kinds)


def is_cut_off(error: BaseException) -> bool:
    """Whether it ends the coroutine that runs here from outside: its task was cancelled, or it is closed.

    A coroutine that raises `CancelledError` or `GeneratorExit` by itself, uncancelled and in its task, has just failed.
    """
    import asyncio

    if not isinstance(error, asyncio.CancelledError | GeneratorExit):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no loop runs here: the coroutine is being thrown away
        return True
    return task is None or (isinstance(error, asyncio.CancelledError) and task.cancelling() > 0)
