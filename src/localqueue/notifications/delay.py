"""A message that can not be leased yet is told of when it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from localqueue.notifications.alarm import ALARM
from localqueue.notifications.port import due_in


def tell_when_due(message: Any, tell: Callable[[], object]) -> None:
    """Call `tell` now, or at the end of the message's delay. One that waits for others is not told of: nobody could
    lease it."""
    delay = due_in(message)
    if delay is None:
        return
    if delay > 0:
        ALARM.ring_in(delay, tell)
    else:
        tell()
