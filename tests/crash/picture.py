"""Everything a store can show, with messages named by queue and payload, so that two stores can be compared.

Ids and versions of records are left out: each store makes its own.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

RUNS = ("diamond", "doomed")
RECORD_KIND = "result"


def picture(store: Any) -> dict[str, Any]:
    """What the store holds. A queue that holds nothing and was never configured is left out."""
    queues = {name: _queue(store, name) for name in store.queues()}
    return {
        "queues": {name: shown for name, shown in queues.items() if shown != _queue(store, "never used")},
        "runs": {name: stats and asdict(stats) for name in RUNS for stats in [store.run(name)]},
        "records": [(record.key, record.value, record.updated_at) for record in store.records(RECORD_KIND)],
    }


def _queue(store: Any, name: str) -> dict[str, Any]:
    messages = store.scan(name)
    payloads = [message.payload for message in messages]
    assert len(set(payloads)) == len(payloads), f"a payload of {name!r} is stored twice: {payloads}"
    return {
        "messages": {message.payload: _message(store, message) for message in messages},
        "dead in order": [message.payload for message in store.scan(name, state="dead")],
        "stats": asdict(store.stats(name)),
        "subscriptions": tuple(store.subscriptions(name)),
    }


def _message(store: Any, message: Any) -> dict[str, Any]:
    shown = message._asdict()
    del shown["id"]
    shown["waits for"] = len(store.upstream(message.queue, message.id))
    return shown
