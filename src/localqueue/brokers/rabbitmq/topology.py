"""The queues that belong to a queue, by their names and arguments.

- `<queue>` holds the messages: a quorum queue, or a classic one with priorities.
- `<queue>.dead` holds the dead letters. A dead-letter exchange (the default one) leads there, for what other programs
  reject; what this package declares dead is copied there, because that can be confirmed.
- `<queue>.delay.<milliseconds>` holds what is delayed by that long. Its messages expire into `<queue>`, and it is gone
  an hour after it was last of use.

There is no delivery limit: who handles a message decides when it is dead. The server's own default is 20 since version
4, its word for "none" (-1) is read as zero before that, so the limit is written out as a number that is never reached.
"""

from __future__ import annotations

import math
from typing import Any

from localqueue.brokers.rabbitmq.settings import QueueType

_NEVER = 2_147_483_647  # deliveries
_UNUSED = 3_600_000  # milliseconds that a delay queue lives longer than its messages
#: How many seconds a delay queue may be used before it is declared again: much less than it lives unused.
DECLARED_FOR = 600.0

_LONGEST_SUFFIX = len(".delay.4294967295")
_LONGEST_NAME = 255 - _LONGEST_SUFFIX
_FINEST, _COARSEST = 10, 60_000  # milliseconds


def check_name(queue: str) -> None:
    """Refuse a name that RabbitMQ, or what is put behind the name here, does not allow."""
    if not isinstance(queue, str):
        raise TypeError(f"the name of a queue is a text, not a {type(queue).__name__}")
    try:
        size = len(queue.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{queue!r} can not be the name of a queue: it is no text that UTF-8 can hold") from None
    if not 1 <= size <= _LONGEST_NAME:
        raise ValueError(
            f"the name of a queue takes 1 to {_LONGEST_NAME} bytes in RabbitMQ, {queue[:40]!r} takes {size}: "
            "the rest is for the names of its dead-letter and delay queues"
        )
    if queue.startswith("amq."):
        raise ValueError(f"{queue!r} can not be the name of a queue: RabbitMQ keeps names with 'amq.' for itself")


def dead_of(queue: str) -> str:
    return f"{queue}.dead"


def delay_of(queue: str, milliseconds: int) -> str:
    return f"{queue}.delay.{milliseconds}"


def rounded(delay: float) -> int:
    """The milliseconds that a delay is rounded up to, so that there are few delay queues.

    By a fiftieth at most, or 10 ms, and never by more than a minute.
    """
    exact = math.ceil(round(delay * 1000, 6))
    step = _FINEST
    for factor in (2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 3000, 6000):
        if _FINEST * factor * 50 <= exact and _FINEST * factor <= _COARSEST:
            step = _FINEST * factor
    return -(-exact // step) * step


def arguments(queue: str, queue_type: QueueType, priorities: int) -> dict[str, Any]:
    dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead_of(queue)}
    if queue_type == "quorum":
        return {"x-queue-type": "quorum", "x-delivery-limit": _NEVER, **dead}
    return {"x-queue-type": "classic", "x-max-priority": priorities, **dead}


def dead_arguments(queue_type: QueueType) -> dict[str, Any]:
    if queue_type == "quorum":
        return {"x-queue-type": "quorum", "x-delivery-limit": _NEVER}
    return {"x-queue-type": "classic"}


def delay_arguments(queue: str, milliseconds: int, queue_type: QueueType) -> dict[str, Any]:
    """A quorum queue keeps what is expired until the other queue has confirmed it."""
    found: dict[str, Any] = {
        "x-queue-type": queue_type,
        "x-message-ttl": milliseconds,
        "x-expires": milliseconds + _UNUSED,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": queue,
    }
    if queue_type == "quorum":
        found |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
    return found
