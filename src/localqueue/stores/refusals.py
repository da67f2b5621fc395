"""What stores say where they refuse, in the same words everywhere."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from localqueue.errors import (
    CircularDependency,
    DedupeKeyInUse,
    NotWaiting,
    QueueStoreClosedError,
    QueueStoreMissingError,
    RecordConflict,
    RunCancelled,
    SubscriptionsChanged,
    UnknownMessage,
)
from localqueue.stores.port import Edge, RecordWrite


def load_driver(name: str, extra: str, *modules: str) -> Any:
    """The last of these modules, or a `RuntimeError` that says how to install them."""
    try:
        for module in modules:
            driver = import_module(module)
        return driver
    except ImportError as error:
        raise RuntimeError(
            f'{name} support requires the optional dependency; install with `pip install "localqueue[{extra}]"`'
        ) from error


def closed(path: str) -> QueueStoreClosedError:
    return QueueStoreClosedError(f"the store at {path!r} is closed", path=path)


def missing(what: str, url: str, path: str | None = None) -> QueueStoreMissingError:
    """There is no such thing (`store`, `namespace 'x' in the store`) where a store was opened to look."""
    return QueueStoreMissingError(f"there is no {what} at {url!r}", path=url if path is None else path)


def not_minted(message_id: str) -> ValueError:
    return ValueError(f"{message_id!r} is not an id of this namespace; ids of new messages come from mint()")


def record_conflict(write: RecordWrite, version: int) -> RecordConflict:
    return RecordConflict(
        f"record {write.key!r} of kind {write.kind!r} is in version {version}, not {write.expect}; nothing was changed"
    )


def run_cancelled(run_id: str | None) -> RunCancelled:
    return RunCancelled(f"run {run_id!r} was cancelled: it takes no more messages; use another run_id")


def subscriptions_changed(topic: str) -> SubscriptionsChanged:
    return SubscriptionsChanged(f"the subscribers of {topic!r} changed while a message was published")


def never_put(message_id: str) -> UnknownMessage:
    return UnknownMessage(
        f"no message {message_id!r} was ever put into this store; after= takes ids that put() returned"
    )


def removed(message_id: str) -> UnknownMessage:
    return UnknownMessage(f"message {message_id!r} was removed without being acked; nothing can come after it")


def forgotten(message_id: str) -> UnknownMessage:
    return UnknownMessage(
        f"message {message_id!r} is not in the store, and was put so long ago (more than 7 days) that nobody knows "
        "whether it was acked or removed; leave it out of after= if it was acked"
    )


def not_waiting(edge: Edge, state: str) -> NotWaiting:
    return NotWaiting(f"message {edge.dependent!r} can not get another dependency: it is {state}, not waiting")


def circular(edge: Edge) -> CircularDependency:
    return CircularDependency(
        f"message {edge.dependent!r} can not wait for {edge.upstream!r}, which waits for it itself"
    )


def dedupe_key_in_use(message_id: str, queue: str, dedupe_key: str) -> DedupeKeyInUse:
    return DedupeKeyInUse(
        f"message {message_id} can not return to queue {queue!r}: a live message has its dedupe key {dedupe_key!r}; "
        "settle that one first"
    )
