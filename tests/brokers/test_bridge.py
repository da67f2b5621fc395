"""Bridges between stores: exactly once, in order, resumable, and what becomes of what can not be sent."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import CollectorRegistry, generate_latest

from localqueue import PersistentQueue, Worker
from localqueue.bridges import Bridge
from localqueue.brokers import Outgoing, StoreBroker
from localqueue.brokers.senders import KIND, Parcel, StoreSender
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import QueueStoreUnavailableError, UnsupportedByBroker
from localqueue.metrics import OpenTelemetryMetrics, PrometheusMetrics
from localqueue.policies import (
    EffectivelyOnceDelivery,
    PerKeyFifoOrdering,
    PriorityOrdering,
    RemoteQueuePlacement,
    TransactionalOutboxCommit,
)
from localqueue.stores.port import Changes, QueueStore
from localqueue.stores.sqlite import MemoryQueueStore, SQLiteQueueStore
from localqueue.workers import OutboxRelay


@pytest.fixture
def here() -> Iterator[QueueStore]:
    with MemoryQueueStore() as store:
        yield store


@pytest.fixture
def there() -> Iterator[QueueStore]:
    with MemoryQueueStore() as store:
        yield store


def values(store: QueueStore, queue: str = "jobs") -> list[Any]:
    return [one.value for one in PersistentQueue[Any](queue, store=store).messages(state="ready")]


def test_messages_arrive_in_order_with_all_that_belongs_to_them(here: QueueStore, there: QueueStore) -> None:
    source = PersistentQueue[Any]("jobs", store=here, ordering_policy=PriorityOrdering())
    source.put_many([{"n": number} for number in range(250)])
    source.put("urgent", priority=7, headers={"trace": "a"}, dedupe_key="d")
    with Bridge(here, there, queue="jobs", to="inbox", batch=40) as bridge:
        counts = bridge.run_until_empty(patience=0.05)
    assert (counts.received, counts.moved, counts.duplicates) == (251, 251, 0)
    assert source.stats().total == 0
    target = PersistentQueue[Any]("inbox", store=there, ordering_policy=PriorityOrdering())
    first = target.get_message(block=False)
    assert (first.value, first.priority, first.headers, first.dedupe_key) == ("urgent", 7, {"trace": "a"}, "d")
    assert values(there, "inbox") == [{"n": number} for number in range(250)]


def test_order_of_a_key_is_kept_over_an_outage(here: QueueStore, there: QueueStore) -> None:
    source = PersistentQueue[Any]("jobs", store=here, ordering_policy=PerKeyFifoOrdering())
    for number in range(12):
        source.put(number, ordering_key=f"k{number % 2}")
    target = Flaky(there, fails=3)
    with Bridge(here, target, queue="jobs", batch=5) as bridge:
        counts = bridge.run_until_empty(patience=0.3)
    assert counts.moved == 12 and counts.retries == 3
    arrived = [(one.ordering_key, one.payload) for one in there.scan("jobs")]
    for key in ("k0", "k1"):
        mine = [int(payload) for name, payload in arrived if name == key]
        assert mine == sorted(mine) and len(mine) == 6


class Flaky(StoreBroker):
    """A target that is away for the first so many sends."""

    def __init__(self, store: QueueStore, fails: int) -> None:
        outer = self
        self.left = fails

        class Store:
            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            def commit(self, changes: Changes) -> Any:
                if changes.enqueue and outer.left:
                    outer.left -= 1
                    raise QueueStoreUnavailableError("away")
                return store.commit(changes)

        super().__init__(Store())  # type: ignore[arg-type]


def test_a_message_that_comes_again_is_put_once(here: QueueStore, there: QueueStore) -> None:
    """A bridge that dies between the commit and the ack: its successor finds the note of the commit."""
    source = StoreBroker(here)
    source.send_batch("jobs", [Outgoing(b"1"), Outgoing(b"2")])
    sender = StoreSender(StoreBroker(there), "jobs", source=f"{source.url}#jobs", remember=60.0)
    found = source.receive("jobs", 1)
    sender.send([Parcel(found[0].id, Outgoing(found[0].body))])
    source.nack(found)
    with Bridge(here, there, queue="jobs") as bridge:
        counts = bridge.run_until_empty(patience=0.05)
    assert (counts.received, counts.moved, counts.duplicates) == (2, 1, 1)
    assert sorted(values(there)) == [1, 2]


def test_a_duplicate_is_known_although_its_message_was_handled_meanwhile(there: QueueStore) -> None:
    sender = StoreSender(StoreBroker(there), "jobs", source="s", remember=60.0)
    assert sender.send([Parcel("a", Outgoing(b"1")), Parcel("b", Outgoing(b"2"))]) == (2, 0)
    queue = PersistentQueue[Any]("jobs", store=there)
    while queue.qsize():
        assert queue.ack(queue.get_message(block=False))
    assert sender.send([Parcel("b", Outgoing(b"2")), Parcel("c", Outgoing(b"3")), Parcel("c", Outgoing(b"3"))]) == (
        1,
        2,
    )
    assert values(there) == [3]


def test_notes_are_forgotten_when_the_source_can_not_repeat_itself(here: QueueStore, there: QueueStore) -> None:
    StoreBroker(here).send_batch("jobs", [Outgoing(b"%d" % number) for number in range(30)])
    with Bridge(here, there, queue="jobs", batch=10) as bridge:
        bridge.run_until_empty(patience=0.05)
    assert there.records(KIND) == []


def test_notes_that_are_too_old_are_forgotten(tmp_path: Path) -> None:
    now = [1_000_000.0]
    with SQLiteQueueStore(tmp_path / "there.db", clock=lambda: now[0]) as there:
        sender = StoreSender(StoreBroker(there), "jobs", source="s", remember=3600.0)
        sender.send([Parcel(f"old{number}", Outgoing(b"1")) for number in range(150)])
        now[0] += 7200.0
        for number in range(4):
            sender.send([Parcel(f"new{number}-{one}", Outgoing(b"1")) for one in range(100)])
        left = {one.key for one in there.records(KIND)}
        assert not any(key.startswith("s/old") for key in left) and len(left) == 400


def test_what_the_target_never_takes_becomes_a_dead_letter_and_the_rest_arrives(
    here: QueueStore, there: QueueStore
) -> None:
    class Picky(Flaky):
        def send_batch(self, queue: str, messages: Any) -> list[str]:
            raise AssertionError("a store is sent to by commits")

    source = StoreBroker(here)
    source.send_batch("jobs", [Outgoing(b"%d" % number) for number in range(5)])

    def change(message: Outgoing) -> Outgoing | None:
        if message.body == b"2":
            raise UnsupportedByBroker("no twos")
        return None if message.body == b"3" else message._replace(headers={"via": "bridge"})

    with Bridge(here, Picky(there, fails=0), queue="jobs", change=change) as bridge:
        counts = bridge.run_until_empty(patience=0.05)
    assert (counts.received, counts.moved, counts.dead_lettered) == (5, 3, 1)
    assert values(there) == [0, 1, 4]
    (dead,) = PersistentQueue[Any]("jobs", store=here).dead_letters()
    assert dead.value == 2 and dead.last_error is not None and "no twos" in dead.last_error["message"]


def test_it_runs_until_it_is_stopped_and_gives_back_what_it_could_not_send(here: QueueStore, there: QueueStore) -> None:
    StoreBroker(here).send("jobs", Outgoing(b"1"))
    target = Flaky(there, fails=10**9)
    tried = threading.Event()
    with Bridge(here, target, queue="jobs", change=lambda message: tried.set() or message) as bridge:
        threads = Background()
        threads.start(bridge.run)
        assert tried.wait(PATIENCE)
        bridge.stop()
        threads.join()
    assert StoreBroker(here).stats("jobs").ready == 1


def test_a_rate_holds_it_back(here: QueueStore, there: QueueStore) -> None:
    StoreBroker(here).send_batch("jobs", [Outgoing(b"x")] * 6)
    with Bridge(here, there, queue="jobs", rate=(2, 0.2)) as slow:
        began = time.monotonic()
        assert slow.run_until_empty(patience=0.01).moved == 6
    assert time.monotonic() - began >= 0.4  # the third pair may start when two intervals of 0.2 s are over


def test_a_queue_that_belongs_elsewhere_is_carried_there(here: QueueStore, there: QueueStore) -> None:
    placement = RemoteQueuePlacement(target=there, queue="inbox")
    queue = PersistentQueue[Any]("jobs", store=here, locality_policy=placement)
    queue.put(1)
    with Bridge.of(queue) as bridge:
        assert bridge.run_until_empty(patience=0.05).moved == 1
    assert values(there, "inbox") == [1]
    assert placement.as_dict()["target"] == "MemoryQueueStore"
    plain = PersistentQueue[Any]("jobs", store=here)
    with pytest.raises(ValueError, match="'jobs' names no place to go to"):
        Bridge.of(plain)


def test_a_placement_shows_no_password() -> None:
    placement = RemoteQueuePlacement(target="amqp://user:geheim1@broker/vhost")
    assert "geheim1" not in f"{placement} {placement.as_dict()}"
    assert RemoteQueuePlacement().as_dict() == {
        "locality": "remote",
        "co_located_state": False,
        "crosses_network_boundary": True,
    }


def test_what_makes_no_sense_is_refused(here: QueueStore, there: QueueStore) -> None:
    with pytest.raises(ValueError, match="source and target are both queue 'jobs'"):
        Bridge(here, here, queue="jobs")
    with pytest.raises(ValueError, match="batch must be at least 1"):
        Bridge(here, there, queue="jobs", batch=0)
    with pytest.raises(ValueError, match="rate="):
        Bridge(here, there, queue="jobs", rate="fast")
    with pytest.raises(TypeError, match="change must be callable"):
        Bridge(here, there, queue="jobs", change=3)  # type: ignore[arg-type]
    StoreBroker(here).send("jobs", Outgoing(b"x"))
    with (
        Bridge(here, there, queue="jobs", change=lambda message: "y") as bridge,  # type: ignore[arg-type, return-value]
    ):
        assert bridge.run_until_empty(patience=0.05).dead_lettered == 1


def test_the_relay_of_an_outbox_sends_to_a_broker_once(here: QueueStore, there: QueueStore) -> None:
    commit = TransactionalOutboxCommit()
    delivery = EffectivelyOnceDelivery(commit_policy=commit)
    queue = PersistentQueue[Any]("orders", store=here, delivery_policy=delivery)
    for number in range(3):
        queue.put({"n": number}, dedupe_key=f"order-{number}")
    Worker(queue, lambda value: value["n"] * 10).run_until_empty()
    relay = OutboxRelay(queue, StoreBroker(there), to="events")
    assert relay.run_until_empty().acked == 3
    relay.close()
    assert [one["result"] for one in values(there, "events")] == [0, 10, 20]
    message = there.scan("events")[0]
    assert json.loads(message.headers or "")["dedupe-key"] == "order-0"
    with pytest.raises(ValueError, match="pass to="):
        OutboxRelay(queue, StoreBroker(there))
    with pytest.raises(ValueError, match="to= names a queue of a broker"):
        OutboxRelay(queue, print, to="events")


def test_metrics_tell_what_came_by_push_by_poll_and_over_the_bridge(here: QueueStore, there: QueueStore) -> None:
    StoreBroker(here).send_batch("jobs", [Outgoing(b"1"), Outgoing(b"2")])
    registry, reader = CollectorRegistry(), InMemoryMetricReader()
    prometheus = PrometheusMetrics(registry)
    telemetry = OpenTelemetryMetrics(meter_provider=MeterProvider([reader]))
    with Bridge(here, there, queue="jobs", name="out") as bridge:
        prometheus.watch(bridge)
        telemetry.watch(bridge)
        bridge.run_until_empty(patience=0.05)
        scraped = generate_latest(registry).decode()
        assert 'localqueue_bridge_total{bridge="out",what="moved"} 2.0' in scraped
        assert 'localqueue_consumer_total{queue="jobs",what="pushed"} 2.0' in scraped
        assert 'localqueue_consumer_total{queue="jobs",what="polls"} 0.0' in scraped
        assert 'localqueue_consumer_degraded{queue="jobs"} 0.0' in scraped
        assert '"what": "moved"' in reader.get_metrics_data().to_json()  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="only a HybridConsumer or a Bridge is watched"):
        prometheus.watch(here)
