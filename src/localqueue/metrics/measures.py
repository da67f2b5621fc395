"""What is measured, whatever library it goes to."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from threading import Lock
from typing import Any, NamedTuple

from localqueue.errors import QueueStoreClosedError
from localqueue.events.event import ACKED, CANCELLED, DEAD_LETTERED, LEASED, RELEASED, Event
from localqueue.message import QueueStats
from localqueue.stores.port import STATES

PUT_TO_LEASE = "put_to_lease"
LEASE_TO_SETTLE = "lease_to_settle"
PUT_TO_ACK = "put_to_ack"

DESCRIPTIONS = {
    "events": "Things that happened to messages, by type",
    "messages": "Messages in the store, by state",
    "oldest_ready_age": "Seconds since the oldest ready message became available",
    "consumer": "What a hybrid consumer did, by queue: messages and questions by push and by poll, settles, outages",
    "consumer_degraded": "1 while push is down and a hybrid consumer polls instead",
    "bridge": "What a bridge did with the messages of its source, in messages (bytes: in bytes)",
    PUT_TO_LEASE: "Seconds from the put of a message to its first lease, delays included",
    LEASE_TO_SETTLE: "Seconds from a lease to its settle: the time of the handler",
    PUT_TO_ACK: "Seconds from the put of a message to its ack",
}

#: Upper bounds of the histograms' buckets, in seconds.
BUCKETS = (0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0)

_SETTLES = (ACKED, RELEASED, DEAD_LETTERED, CANCELLED)


class Duration(NamedTuple):
    name: str
    seconds: float


def durations(event: Event) -> Iterator[Duration]:
    """How long what ends with this event took."""
    created_at, leased_at = event.data.get("created_at"), event.data.get("leased_at")
    if event.type == LEASED and event.attempt == 1 and created_at is not None:
        yield Duration(PUT_TO_LEASE, max(0.0, event.at - created_at))
    if event.type in _SETTLES and leased_at is not None:
        yield Duration(LEASE_TO_SETTLE, max(0.0, event.at - leased_at))
    if event.type == ACKED and created_at is not None:
        yield Duration(PUT_TO_ACK, max(0.0, event.at - created_at))


class WatchedQueues:
    """The queues whose counts are read when somebody asks; a queue that is closed or forgotten drops out."""

    def __init__(self) -> None:
        self._queues: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = Lock()

    def add(self, queue: Any) -> None:
        with self._lock:
            self._queues.add(queue)

    def remove(self, queue: Any) -> None:
        with self._lock:
            self._queues.discard(queue)

    def stats(self) -> dict[str, QueueStats]:
        """The counts of each queue by its name. One that can not be read is logged and left out."""
        with self._lock:
            queues = list(self._queues)
        found: dict[str, QueueStats] = {}
        for queue in queues:
            try:
                if queue.name not in found:
                    found[queue.name] = queue.stats()
            except QueueStoreClosedError:
                self.remove(queue)
            except Exception:
                import logging

                logging.getLogger("localqueue.metrics").exception("the counts of queue %r can not be read", queue.name)
        return found


def by_state(stats: QueueStats) -> dict[str, int]:
    return {state: getattr(stats, state) for state in STATES}


class Flow(NamedTuple):
    """What a consumer or a bridge has counted, under the name of its queue or its own."""

    kind: str
    name: str
    counts: dict[str, int]
    degraded: bool


class WatchedFlows:
    """The consumers and bridges whose counters are read when somebody asks, as long as they live."""

    def __init__(self) -> None:
        self._flows: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = Lock()

    def add(self, flow: Any) -> None:
        if not hasattr(flow, "counters"):
            raise TypeError(f"only a HybridConsumer or a Bridge is watched, not {flow!r}; a queue gets a hook")
        with self._lock:
            self._flows.add(flow)

    def read(self) -> list[Flow]:
        """One for each name: what several of the same name counted is added up."""
        with self._lock:
            flows = list(self._flows)
        found: dict[tuple[str, str], Flow] = {}
        for flow in flows:
            state = flow.counters.state
            for kind, name, counts in _counts_of(flow):
                known = found.get((kind, name), Flow(kind, name, {}, False))
                both = {what: known.counts.get(what, 0) + count for what, count in counts.items()}
                found[kind, name] = Flow(kind, name, both, known.degraded or state == "degraded")
        return list(found.values())


def _counts_of(flow: Any) -> Iterator[tuple[str, str, dict[str, int]]]:
    counters = {what: count for what, count in flow.counters.as_dict().items() if what != "state"}
    yield "consumer", flow.queue, counters
    if hasattr(flow, "counts"):
        yield "bridge", flow.name, flow.counts.as_dict()
