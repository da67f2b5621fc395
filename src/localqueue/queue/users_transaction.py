"""Putting messages in a transaction of the user, so that they commit together with the user's own rows."""

from __future__ import annotations

from localqueue.policies import Configuration
from localqueue.stores.port import JoinsTransactions, QueueStore


def joining_store(configuration: Configuration, store: QueueStore, timeout: float | None) -> JoinsTransactions:
    """The store as one that can join a transaction, or a refusal with the way out."""
    if not isinstance(store, JoinsTransactions):
        raise ValueError(
            f"the store of queue {configuration.name!r} at {store.url} can not join a transaction of yours; keep the "
            "queue in a PostgresQueueStore on the database of your own tables, or in a SQLiteQueueStore on the file of "
            f"your own tables, not in a {type(store).__name__}"
        )
    if configuration.dispatch_policy.dispatches_on_put:
        raise ValueError(
            f"queue {configuration.name!r} dispatches each message as soon as it is stored, and with connection= that "
            "is not before you commit; put through a queue object without dispatch_policy="
        )
    if timeout is not None:
        raise ValueError(
            "pass either timeout= or connection=, not both; inside your transaction a full queue raises at once"
        )
    return store
