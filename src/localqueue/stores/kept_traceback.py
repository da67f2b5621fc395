"""What is kept of where an exception was raised: files, lines, functions and source, and the errors it came from.

Never a local variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from localqueue.interrupts import is_interrupt

if TYPE_CHECKING:
    from traceback import FrameSummary, TracebackException

# Of a stack that is deeper: the frames at its beginning and at its end.
_FIRST, _LAST = 20, 40

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
#: What calls a handler on our behalf, below or above frames of ours.
_CALLERS = tuple(
    os.sep + os.path.join(*parts) for parts in (("tenacity", ""), ("concurrent", "futures", ""), ("asyncio", ""))
)
_GAP = re.compile(r'  File "\.\.\.", line 0, in (\d+ frames left out)')


def traceback_text(error: BaseException) -> str | None:
    """The traceback as Python prints it, without the frames of ours that lead to the user's code.

    None where there is no such code: it was not raised, or by nobody but us.
    """
    if error.__traceback__ is None:
        return None
    from traceback import TracebackException

    try:
        told = TracebackException.from_exception(error, lookup_lines=False)
        for one in _all_of(told):
            _trim(one)
        if not any(one.stack for one in _all_of(told)):
            return None
        return _GAP.sub(r"  [\1]", "".join(told.format()).rstrip("\n"))
    except BaseException as failure:  # what an exception of anybody's making does when it is looked at
        if is_interrupt(failure):
            raise
        return f"<traceback of {type(error).__name__} that can not be shown: {type(failure).__name__}>"


def _all_of(told: TracebackException) -> Iterator[TracebackException]:
    rest: list[TracebackException | None] = [told]
    while rest:
        one = rest.pop()
        if one is not None:
            yield one
            rest += (one.__cause__, one.__context__, *(one.exceptions or ()))


def _trim(told: TracebackException) -> None:
    from traceback import FrameSummary, StackSummary

    frames = list(told.stack)
    users = next((number for number, frame in enumerate(frames) if not _is_ours(frame)), len(frames))
    frames = frames[users:]
    left_out = len(frames) - _FIRST - _LAST
    if left_out > 0:
        gap = FrameSummary("...", 0, f"{left_out} frames left out", lookup_line=False, line="")
        frames = [*frames[:_FIRST], gap, *frames[-_LAST:]]
    # Made anew without columns, which would put a line of marks below each line of source.
    told.stack = StackSummary.from_list(
        [FrameSummary(frame.filename, frame.lineno, frame.name, lookup_line=False) for frame in frames]
    )


def _is_ours(frame: FrameSummary) -> bool:
    return frame.filename.startswith(_PACKAGE) or any(part in frame.filename for part in _CALLERS)
