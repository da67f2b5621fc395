"""The exceptions a commit is refused with."""

from __future__ import annotations

from collections.abc import Callable

from localqueue.errors import (
    CircularDependency,
    IdTaken,
    LeaseLost,
    NotWaiting,
    QueueError,
    QueueFull,
    RecordConflict,
    RunCancelled,
    SubscriptionsChanged,
    UnknownMessage,
)
from localqueue.stores.port import Changes, NewMessage
from localqueue.stores.redis.calling import Refused

KeyOf = Callable[[str], bytes]


def explain(refused: Refused, changes: Changes, key_of: KeyOf, name_of: Callable[[bytes], str]) -> QueueError:
    """What a refused commit raises; the function says which part of it was refused, the rest is known here."""
    details = refused.details
    match refused.name:
        case "LeaseLost":
            stale = changes.settle[details[0] - 1]
            return LeaseLost(stale.queue, stale.id, stale.token)
        case "RecordConflict":
            write = changes.records[details[0] - 1]
            return RecordConflict(
                f"record {write.key!r} of kind {write.kind!r} is in version {int.from_bytes(details[1])}, not "
                f"{write.expect}; nothing was changed"
            )
        case "QueueFull":
            queue = _message(changes, details[0], key_of).queue
            return QueueFull(queue, changes.limits[queue].maxsize)
        case "IdTaken":
            return IdTaken(f"message id {_message(changes, details[0], key_of).id} is in use")
        case "RunCancelled":
            run_id = _message(changes, details[0], key_of).run_id
            return RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")
        case "UnknownMessage":
            return _unknown(changes, details[0], details[1], key_of)
        case "NotWaiting":
            edge = changes.edges[details[0] - 1]
            state = details[1].decode()
            return NotWaiting(f"message {edge.dependent!r} can not get another dependency: it is {state}, not waiting")
        case "CircularDependency":
            edge = changes.edges[details[0] - 1]
            return CircularDependency(
                f"message {edge.dependent!r} can not wait for {edge.upstream!r}, which waits for it itself"
            )
        case "SubscriptionsChanged":
            return SubscriptionsChanged(
                f"the subscribers of {name_of(details[0])!r} changed while a message was published"
            )
    raise refused


def _message(changes: Changes, key: bytes, key_of: KeyOf) -> NewMessage:
    return next(message for message in changes.enqueue if key_of(message.id) == key)


def _unknown(changes: Changes, dependent: bytes, upstream: bytes, key_of: KeyOf) -> UnknownMessage:
    """Which upstream it was: one that is no id of ours, or one that was removed."""
    named = [one for message in changes.enqueue if key_of(message.id) == dependent for one in message.after]
    named += [edge.upstream for edge in changes.edges if key_of(edge.dependent) == dependent]
    which = next((one for one in named if key_of(one) == upstream), "")
    if not upstream:
        return UnknownMessage(
            f"no message {which!r} was ever put into this store; after= takes ids that put() returned"
        )
    return UnknownMessage(f"message {which!r} was removed without being acked; nothing can come after it")
