"""A call to a server in steps, so that its logic stands once for threads and for event loops.

The steps of a call are a generator without I/O. It yields a question, which is whatever its store knows how to ask the
server, or a function that takes a longer way and may block. It is sent the answer, or thrown what went wrong, and
returns what the call returns. On an event loop it is `loops.follow` that goes through them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

R = TypeVar("R")

Steps = Generator[Any, Any, R]


def run(steps: Steps[R], ask: Callable[[Any], Any]) -> R:
    """Go through the steps in this thread."""
    try:
        step = steps.send(None)
        while True:
            try:
                answer = step() if callable(step) else ask(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        result: R = end.value
        return result
