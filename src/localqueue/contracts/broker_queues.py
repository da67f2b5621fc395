"""A broker as the store of a queue: workers and tasks run on it, or are refused what it can not do when made."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from localqueue.brokers.port import Broker, Outgoing
from localqueue.contracts.broker_harness import BrokerFixtures
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import UnsupportedByBroker
from localqueue.policies import (
    AtMostOnceDelivery,
    DedupeKeySupport,
    EffectivelyOnceDelivery,
    FifoReadyOrdering,
    PerKeyFifoOrdering,
    PriorityOrdering,
)
from localqueue.queue import PersistentQueue
from localqueue.tasks import Tasks
from localqueue.workers import AsyncWorker, Worker


class BrokerQueueContract(BrokerFixtures):
    @pytest.fixture
    def jobs(self, broker: Broker, queue: str) -> Iterator[PersistentQueue[Any]]:
        with PersistentQueue[Any](queue, store=broker) as jobs:
            yield jobs

    def test_a_queue_puts_gets_and_acks(self, jobs: PersistentQueue[Any]) -> None:
        sent = jobs.put({"n": 1}, headers={"trace": "a"})
        message = jobs.get_message(timeout=PATIENCE)
        assert (message.id, message.value, message.headers) == (sent.id, {"n": 1}, {"trace": "a"})
        assert message.state == "inflight" and message.attempts == 1
        assert jobs.renew(message) is not None
        assert jobs.ack(message) and not jobs.ack(message)
        assert jobs.stats().ready == 0

    def test_what_other_programs_send_is_read(self, broker: Broker, jobs: PersistentQueue[Any]) -> None:
        broker.send(jobs.name, Outgoing(b'{"from": "elsewhere"}'))
        assert jobs.get(timeout=PATIENCE) == {"from": "elsewhere"}

    def test_a_worker_handles_every_message_and_buries_what_fails(self, jobs: PersistentQueue[Any]) -> None:
        jobs.put_many(range(20))
        seen: list[int] = []

        def handle(number: int) -> None:
            seen.append(number)
            if number == 7:
                raise ValueError("no seven")

        done, threads, ends = threading.Event(), Background(), list[str]()

        def settled(outcome: Any) -> None:
            ends.append(outcome.state)
            if Counter(ends) >= Counter({"acked": 19, "dead-lettered": 1}):
                done.set()

        worker = Worker(jobs, handle, concurrency=2, prefetch=4, max_tries=2, wait=0, on_settled=settled)
        threads.start(worker.run)
        assert done.wait(PATIENCE)
        worker.stop()
        threads.join()
        assert Counter(seen) == Counter([*range(20), 7])
        (dead,) = jobs.dead_letters()
        assert dead.value == 7 and dead.last_error is not None and dead.last_error["message"] == "no seven"
        assert jobs.requeue_all_dead() == 1
        assert jobs.get(timeout=PATIENCE) == 7

    def test_a_worker_stops_when_the_queue_is_empty(self, jobs: PersistentQueue[Any]) -> None:
        jobs.put_many(range(5))
        seen: list[int] = []
        assert Worker(jobs, seen.append).run_until_empty().acked == 5
        assert sorted(seen) == [0, 1, 2, 3, 4]

    def test_a_worker_that_waits_is_given_what_comes_and_stops_at_once(self, jobs: PersistentQueue[Any]) -> None:
        handled, threads = threading.Event(), Background()
        worker = Worker(jobs, lambda value: handled.set())
        threads.start(worker.run)
        jobs.put("x")
        assert handled.wait(PATIENCE)
        worker.stop()
        threads.join()

    def test_an_async_worker_runs_on_it(self, jobs: PersistentQueue[Any]) -> None:
        import asyncio

        jobs.put_many(range(6))
        seen: list[int] = []

        async def handle(number: int) -> None:
            seen.append(number)

        asyncio.run(AsyncWorker(jobs, handle, concurrency=3).run_until_empty())
        assert sorted(seen) == [0, 1, 2, 3, 4, 5]

    def test_tasks_run_on_it(self, broker: Broker, queue: str) -> None:
        with Tasks(broker, queue=queue, keep_results=None) as tasks:
            seen: list[tuple[int, int]] = []

            @tasks.task(retries=1, retry_delay=0)
            def add(a: int, b: int) -> None:
                seen.append((a, b))
                if len(seen) == 1:
                    raise OSError("once")

            add.enqueue(1, 2)
            tasks.worker(concurrency=1, scheduler=False).run_until_empty(wait_for_delayed=True)
            assert seen == [(1, 2), (1, 2)]

    def test_at_most_once_takes_messages_away(self, broker: Broker, queue: str) -> None:
        with PersistentQueue[Any](queue, store=broker, delivery_policy=AtMostOnceDelivery()) as jobs:
            jobs.put("x")
            assert jobs.get(timeout=PATIENCE) == "x"
            assert broker.receive(queue) == []

    def test_what_the_broker_can_not_do_is_refused_when_the_queue_is_made(self, broker: Broker, queue: str) -> None:
        can, is_store = broker.capabilities, not broker.capabilities.makes_queues
        cases: list[tuple[bool, dict[str, Any]]] = [
            (bool(can.priorities), {"ordering_policy": PriorityOrdering()}),
            (can.dedupe, {"deduplication_policy": DedupeKeySupport()}),
            (can.order == "queue", {"ordering_policy": FifoReadyOrdering()}),
            (can.lease == "timeout", {"lease_timeout": 7.0}),
            (can.counts_deliveries, {"max_attempts": 5}),
            (is_store, {"ordering_policy": PerKeyFifoOrdering()}),
            (is_store, {"keep_results": 60.0}),
            (is_store, {"maxsize": 10}),
            (is_store, {"delivery_policy": EffectivelyOnceDelivery(), "deduplication_policy": DedupeKeySupport()}),
        ]
        for allowed, options in cases:
            if allowed:
                PersistentQueue[Any](queue, store=broker, **options).close()
            else:
                with pytest.raises(UnsupportedByBroker, match=can.name):
                    PersistentQueue[Any](queue, store=broker, **options)

    def test_what_the_broker_can_not_do_is_refused_when_tasks_are_declared(self, broker: Broker, queue: str) -> None:
        if not broker.capabilities.makes_queues:
            assert Tasks(broker, queue=queue).queue().keep_results is not None
            return
        with pytest.raises(UnsupportedByBroker, match="keep_results=None"):
            Tasks(broker, queue=queue)
        tasks = Tasks(broker, queue=queue, keep_results=None)
        for refused in ({"rate": "1/s"}, {"ttl": 3.0}, {"priority": broker.capabilities.priorities + 1}):
            with pytest.raises(UnsupportedByBroker, match=broker.capabilities.name):
                tasks.task(**refused)(lambda: None)
        with pytest.raises(UnsupportedByBroker, match="schedules"):
            tasks.every(60)(lambda: None)

    def test_puts_that_need_more_than_a_broker_are_refused(self, jobs: PersistentQueue[Any], broker: Broker) -> None:
        if not broker.capabilities.makes_queues:
            assert jobs.broker is None
            return
        assert jobs.broker is broker.capabilities
        for options in ({"ttl": 5.0}, {"run_id": "r"}):
            with pytest.raises(UnsupportedByBroker):
                jobs.put("x", **options)
        if not broker.capabilities.delay:
            with pytest.raises(UnsupportedByBroker, match="delay"):
                jobs.put("x", delay=1.0)
        assert jobs.stats().ready == 0
