"""What a store shows must be what the reference model shows: counts, messages and runs."""

from __future__ import annotations

from collections import Counter
from typing import Any

from localqueue.contracts.model import LIVE, Model
from localqueue.stores.port import STATES, QueueStore

QUEUES = ("one", "two", "spill")
RUNS = ("r", "s")
WORKERS = ("v", "w")


def counts_agree(store: QueueStore, model: Model) -> None:
    for queue in QUEUES:
        expected, stats = model.counts(queue), store.stats(queue)
        assert _by_state(stats) == {state: expected[state] for state in STATES}, (queue, stats, expected)
        assert stats.total == expected.total()
        assert stats.dropped == model.dropped[queue]
        assert stats.paused == (queue in model.paused)
        assert stats.paused_workers == tuple(sorted(w for name, w in model.paused_workers if name == queue))
        assert store.qsize(queue) == expected["ready"]
        assert store.load(queue) == expected["ready"] + expected["blocked"]


def messages_agree(store: QueueStore, model: Model) -> None:
    for queue in QUEUES:
        found = store.scan(queue)
        assert [_seen(message, message.waiting_on) for message in found] == [
            _seen(message, len(message.after)) for message in model.of(queue)
        ]
        for message in found:
            assert store.upstream(queue, message.id) == sorted(model.messages[message.id].after)
        for state in ("dead", "expired", "cancelled"):
            ended = sorted(model.of(queue, state), key=lambda m: (m.ended_at, m.id))
            assert [message.id for message in store.scan(queue, state=state)] == [message.id for message in ended]


def runs_agree(store: QueueStore, model: Model) -> None:
    for run_id in RUNS:
        run, expected = store.run(run_id), Counter(m.state for m in model.messages.values() if m.run_id == run_id)
        assert (run is None) == (model.run_total[run_id] == 0), (run_id, run)
        if run is None:
            continue
        assert (run.total, run.done) == (model.run_total[run_id], model.run_done[run_id])
        assert _by_state(run) == {state: expected[state] for state in STATES}


def _by_state(stats: Any) -> dict[str, int]:
    return {state: getattr(stats, state) for state in STATES}


def _seen(message: Any, waiting_on: int) -> dict[str, Any]:
    """What a message shows, of those fields that mean something in its state."""
    names = ["id", "queue", "state", "payload", "priority", "attempts", "dedupe_key", "ordering_key", "run_id"]
    if message.state in LIVE:
        names += ["available_at", "expires_at"]
    if message.state == "inflight":
        names.append("leased_until")
    return {"waiting_on": waiting_on, **{name: getattr(message, name) for name in names}}
