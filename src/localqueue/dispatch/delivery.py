"""One delivery: call the handlers with a leased message, then settle it by how that went."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from localqueue.events.event import DISPATCH_FAILED, DISPATCHED
from localqueue.message import QueueMessage
from localqueue.stores.port import Changes, Settle

if TYPE_CHECKING:
    from localqueue.queue import PersistentQueue

log = logging.getLogger("localqueue.dispatch")

Handler = Callable[[Any], object]

_FIRST_RETRY = 0.1
_LATEST_RETRY = 30.0


def retry_delay(tries: int) -> float:
    """Seconds until a message that failed `tries` times is delivered again: doubling, so that poison does not spin."""
    return float(min(_FIRST_RETRY * 2 ** min(tries - 1, 30), _LATEST_RETRY))


def handle(
    queue: PersistentQueue[Any], handlers: Sequence[Handler], message: QueueMessage[Any]
) -> BaseException | None:
    """Call the handlers in order; the first exception stops those behind it, is logged, and returned."""
    try:
        with queue.desk.processing(message):
            for handler in handlers:
                handler(message)
    except BaseException as error:
        log.error(
            "a handler failed on message %s of queue %r in attempt %d",
            *(message.id, queue.name, message.attempts),
            exc_info=error,
        )
        queue.emit(DISPATCH_FAILED, message, error=error)
        return error
    queue.emit(DISPATCHED, message)
    return None


def settle(queue: PersistentQueue[Any], message: QueueMessage[Any], error: BaseException | None) -> None:
    """Ack a message whose handlers succeeded; release, or dead-letter, one whose handlers failed."""
    if queue.desk.consumes:
        return
    if error is None:
        settled = queue.ack(message)
    else:
        settled = queue.release(message, delay=retry_delay(message.tries), error=error)
    if not settled:
        log.warning(
            "message %s of queue %r was handled, but its lease was lost or a handler settled it",
            *(message.id, queue.name),
        )


def give_back(queue: PersistentQueue[Any], messages: Sequence[QueueMessage[Any]]) -> None:
    """Release messages that did not fail, so that no attempt limit turns them into dead letters."""
    settles = [Settle(queue.name, message.id, "release", message.attempts) for message in messages]
    if settles and not queue.desk.consumes:
        queue.desk.commit(Changes(settle=settles, strict=False), messages)
