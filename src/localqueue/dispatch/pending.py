"""Delivering what is ready in the caller's own thread."""

from __future__ import annotations

from collections.abc import Sequence
from queue import Empty
from typing import TYPE_CHECKING, Any

from localqueue.dispatch.delivery import Handler, give_back, handle, settle
from localqueue.dispatch.keeper import LeaseKeeper
from localqueue.interrupts import asks_to_end

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue


def deliver_pending(queue: PersistentQueue[Any], handlers: Sequence[Handler], limit: int | None) -> int:
    """Deliver at most `limit` messages, or as many as are ready now; how many that were.

    Counting first is what ends it: a failed message whose delay is over is ready again.
    """
    ready = queue.qsize()
    most = ready if limit is None else min(limit, ready)
    with LeaseKeeper(queue) as keeper:
        for delivered in range(most):
            try:
                message = queue.get_message(block=False)
            except Empty:
                return delivered
            keeper.hold([message])
            error = handle(queue, handlers, message)
            keeper.drop(message)
            if error is not None and asks_to_end(error):
                give_back(queue, [message])  # an interrupt says nothing about the message
                raise error
            settle(queue, message, error)
    return most
