"""A picture of a store: everything the port shows of a namespace, as plain values that compare and go into JSON.

Stores mint their own ids of messages and versions of records, so a picture calls them by the labels it is given. Two
stores that were told the same, on the same clock, make equal pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from localqueue.stores.port import STATES, QueueStore, StoredMessage

Labels = Mapping[str | int, Any]


def picture(
    store: QueueStore,
    labels: Labels,
    *,
    queues: Sequence[str],
    runs: Sequence[str] = (),
    kinds: Sequence[str] = (),
    workers: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything visible. Names that nobody used look empty; the journal is shown whole."""
    return {
        "queues": {queue: picture_of_queue(store, labels, queue, workers) for queue in queues},
        "runs": {"all": store.runs(), **{run: picture_of_run(store, labels, run) for run in runs}},
        "records": {kind: plain([record._asdict() for record in store.records(kind)], labels) for kind in kinds},
        "journal": {
            "enabled": store.journal_enabled(),
            "span": list(store.journal_span()),
            "events": plain([event._asdict() for event in store.events()], labels),
        },
    }


def picture_of_queue(store: QueueStore, labels: Labels, queue: str, workers: Sequence[str] = ()) -> dict[str, Any]:
    """One queue in every way there is to look at it. Those `differing` are shown otherwise by `get` than by `scan`."""
    found = store.scan(queue)
    waits = {message.id: store.upstream(queue, message.id) for message in found}
    return {
        **counts_of_queue(store, queue),
        "messages": messages_of_queue(found, labels),
        "by_state": {state: _labelled(store.scan(queue, state=state), labels) for state in STATES},
        "differing": _labelled([message for message in found if store.get(queue, message.id) != message], labels),
        "upstream": {labels.get(one, one): plain(ids, labels) for one, ids in waits.items() if ids},
        "paused": [store.paused(queue), *(store.paused(queue, worker=worker) for worker in workers)],
        "subscriptions": plain(store.subscriptions(queue)._asdict(), labels),
    }


def counts_of_queue(store: QueueStore, queue: str) -> dict[str, Any]:
    return {
        "stats": plain(store.stats(queue).as_dict(), {}),
        "qsize": store.qsize(queue),
        "load": store.load(queue),
    }


def messages_of_queue(found: Sequence[StoredMessage], labels: Labels) -> list[dict[str, Any]]:
    return [plain(message._asdict(), labels) for message in found]


def picture_of_run(store: QueueStore, labels: Labels, run_id: str) -> dict[str, Any] | None:
    run = store.run(run_id)
    return None if run is None else {**run.as_dict(), "messages": _labelled(store.run_messages(run_id), labels)}


def _labelled(messages: Sequence[StoredMessage], labels: Labels) -> list[Any]:
    return [labels.get(message.id, message.id) for message in messages]


def plain(value: Any, labels: Labels) -> Any:
    """A value as JSON knows it, with labels for ids and versions. Times are good to a microsecond."""
    if isinstance(value, str) or type(value) is int:
        return labels.get(value, value)
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict(), labels)
    if isinstance(value, Mapping):
        return {plain(key, labels): plain(one, labels) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one, labels) for one in value]
    return value


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two pictures differ, a line each."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        absent = "(absent)"
        return [
            line
            for key in keys
            for line in differences(one.get(key, absent), other.get(key, absent), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [line for n, (left, right) in pairs for line in differences(left, right, f"{path}[{n}]")]
    return [] if one == other else [f"{path}: {one!r} != {other!r}"]
