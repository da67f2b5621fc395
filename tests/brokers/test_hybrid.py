"""Hybrid consumers over real stores: nothing is lost or handed out twice, whatever becomes of push."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue.brokers import AsyncHybridConsumer, HybridConsumer, Outgoing, StoreBroker, open_broker
from localqueue.brokers.port import MessageNotification, Subscription
from localqueue.contracts.steps import PATIENCE, Background
from localqueue.errors import QueueStoreClosedError, QueueStoreUnavailableError
from localqueue.stores.port import QueueStore
from localqueue.stores.sqlite import MemoryQueueStore, SQLiteQueueStore


@pytest.fixture
def store() -> Iterator[QueueStore]:
    with MemoryQueueStore() as store:
        yield store


class Unreliable(StoreBroker):
    """A broker whose pushes a test can lose, or break off. One that is lost was waited for as long as it could be."""

    def __init__(self, store: QueueStore) -> None:
        super().__init__(store)
        self.broken = threading.Event()
        self.subscribed = threading.Semaphore(0)
        self.count = 0
        self.drops_every_other = False
        self.now = 0.0
        self._current: _Line | None = None

    def subscribe(self, queue: str, *, prefetch: int = 100, lease: float = 30.0) -> Any:
        if self.broken.is_set():
            raise QueueStoreUnavailableError("no push now")
        self._current = _Line(self, super().subscribe(queue))
        self.subscribed.release()
        return self._current

    def break_push(self) -> None:
        self.broken.set()
        assert self._current is not None
        self._current.wake()


class _Line:
    def __init__(self, broker: Unreliable, subscription: Subscription) -> None:
        self._broker = broker
        self._subscription = subscription
        self.wake = subscription.wake
        self.close = subscription.close

    def next(self, timeout: float | None = None) -> MessageNotification | None:
        told = self._subscription.next(timeout)
        if self._broker.broken.is_set():
            raise QueueStoreUnavailableError("push broke off")
        if told is not None and self._broker.drops_every_other:
            self._broker.count += 1
            if self._broker.count % 2:
                assert timeout is not None
                self._broker.now += timeout
                return None
        return told


def test_every_message_is_handed_out_once_although_every_other_push_is_dropped(store: QueueStore) -> None:
    broker = Unreliable(store)
    broker.drops_every_other = True
    seen: list[bytes] = []
    with HybridConsumer(broker, "jobs", batch=3, fallback_interval=5.0) as consumer:
        consumer._course._clock = lambda: broker.now
        consumer._course._subscribe_at = consumer._course._poll_at = broker.now
        for number in range(0, 40, 4):
            broker.send_batch("jobs", [Outgoing(str(number + more).encode()) for more in range(4)])
            batch = consumer.next_batch(PATIENCE)
            while batch:
                seen += [one.body for one in batch]
                assert all(consumer.ack(batch))
                batch = consumer.next_batch(0)
        assert list(map(int, seen)) == list(range(40))
        assert broker.count == 9  # of ten times; a subscription begins with what is there
        assert (consumer.counters.pushed, consumer.counters.polled) == (20, 20)


def test_it_degrades_to_polling_and_goes_back_to_push(store: QueueStore) -> None:
    broker = Unreliable(store)
    with HybridConsumer(broker, "jobs", fallback_interval=60.0) as consumer:
        broker.send("jobs", Outgoing(b"a"))
        assert [one.body for one in consumer.next_batch(PATIENCE)] == [b"a"]
        assert consumer.counters.state == "push"

        broker.break_push()
        broker.send("jobs", Outgoing(b"b"))
        assert [one.body for one in consumer.next_batch(PATIENCE)] == [b"b"]
        assert consumer.counters.state == "degraded" and consumer.counters.polled == 1

        broker.broken.clear()
        broker.subscribed = threading.Semaphore(0)
        threads, found = Background(), list[bytes]()
        threads.start(lambda: found.extend(one.body for one in consumer.next_batch(PATIENCE)))
        assert broker.subscribed.acquire(timeout=PATIENCE)
        broker.send("jobs", Outgoing(b"c"))
        threads.join()
        assert found == [b"c"]
        assert consumer.counters.state == "push"
        assert (consumer.counters.degradations, consumer.counters.recoveries) == (1, 1)


def test_push_finds_what_another_process_puts_without_a_poll(tmp_path: Path) -> None:
    path = str(tmp_path / "jobs.db")
    with (
        SQLiteQueueStore(path) as ours,
        SQLiteQueueStore(path) as theirs,
        HybridConsumer(ours, "jobs", fallback_interval=10 * PATIENCE) as consumer,
    ):
        assert consumer.next_batch(0) == []
        threads, found = Background(), list[bytes]()
        threads.start(lambda: found.extend(one.body for one in consumer.next_batch(PATIENCE)))
        StoreBroker(theirs).send("jobs", Outgoing(b"x"))
        threads.join()
        assert found == [b"x"] and consumer.counters.polls == 0


def test_iteration_hands_out_messages_until_it_is_stopped_and_gives_the_rest_back(store: QueueStore) -> None:
    broker = StoreBroker(store)
    broker.send_batch("jobs", [Outgoing(str(number).encode()) for number in range(6)])
    seen = []
    with HybridConsumer(broker, "jobs", batch=4) as consumer:
        for one in consumer:
            seen.append(one.body)
            assert consumer.ack(one) == [True]
            if len(seen) == 2:
                consumer.stop()
    assert seen == [b"0", b"1"]
    assert broker.stats("jobs").ready == 4 and broker.stats("jobs").inflight == 0
    assert consumer.counters.acked == 2


def test_what_is_handed_out_is_not_acknowledged(store: QueueStore) -> None:
    broker = StoreBroker(store)
    broker.send("jobs", Outgoing(b"x"))
    with HybridConsumer(broker, "jobs", lease=60.0) as consumer:
        (one,) = consumer.next_batch(PATIENCE)
        assert broker.stats("jobs").inflight == 1
        assert consumer.extend(one, 90.0)[0] is not None
        assert consumer.nack(one, dead=True, error={"message": "bad"}) == [True]
        assert consumer.ack(one) == [False]
    assert broker.stats("jobs").dead == 1
    assert (consumer.counters.dead_lettered, consumer.counters.lost) == (1, 1)


def test_stop_ends_a_wait_of_every_mode(store: QueueStore) -> None:
    for mode in ("hybrid", "push_only", "poll_only"):
        with HybridConsumer(store, "jobs", mode=mode, fallback_interval=600.0) as consumer:  # type: ignore[arg-type]
            threads = Background()
            threads.start(lambda consumer=consumer: consumer.next_batch())
            consumer.stop()
            threads.join()


def test_a_closed_consumer_says_so(store: QueueStore) -> None:
    consumer = HybridConsumer(store, "jobs")
    consumer.close()
    consumer.close()
    with pytest.raises(QueueStoreClosedError, match="'jobs' is closed"):
        consumer.next_batch(0)


def test_an_address_is_opened_and_closed_with_the_consumer(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with open_broker(url) as broker:
        broker.send("jobs", Outgoing(b"x"))
    with HybridConsumer(url, "jobs") as consumer:
        assert consumer.ack(consumer.next_batch(PATIENCE)) == [True]
    with pytest.raises(QueueStoreClosedError):
        consumer.broker.stats("jobs")


@pytest.mark.parametrize("wrong", [{"prefetch": 0}, {"batch": -1}, {"mode": "push"}])
def test_wrong_settings_are_refused(store: QueueStore, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        HybridConsumer(store, "jobs", **wrong)
    with pytest.raises(TypeError, match="a broker, a store or the address of one"):
        HybridConsumer(42, "jobs")  # type: ignore[arg-type]


# coroutines


def test_coroutines_are_handed_messages_and_settle_them(store: QueueStore) -> None:
    broker = StoreBroker(store)

    async def main() -> list[bytes]:
        seen: list[bytes] = []
        async with AsyncHybridConsumer(broker, "jobs", batch=4) as consumer:
            waiting = asyncio.create_task(consumer.next_batch(PATIENCE))
            await asyncio.to_thread(broker.send, "jobs", Outgoing(b"a"))
            assert await consumer.ack(await waiting) == [True]
            await asyncio.to_thread(broker.send_batch, "jobs", [Outgoing(b"b"), Outgoing(b"c")])
            async for one in consumer:
                seen.append(one.body)
                assert await consumer.nack(one, dead=True) == [True]
                if len(seen) == 2:
                    break
        return seen

    assert asyncio.run(main()) == [b"b", b"c"]
    assert broker.stats("jobs").dead == 2


def test_a_cancelled_wait_loses_no_message(store: QueueStore) -> None:
    async def main() -> None:
        broker = StoreBroker(store)
        async with AsyncHybridConsumer(broker, "jobs", lease=600.0, fallback_interval=600.0) as consumer:
            for number in range(20):
                waiting = asyncio.create_task(consumer.next_batch(PATIENCE))
                await asyncio.sleep(0)
                sending = asyncio.create_task(asyncio.to_thread(broker.send, "jobs", Outgoing(str(number).encode())))
                if number % 2:
                    await sending
                waiting.cancel()
                found = (await asyncio.gather(waiting, return_exceptions=True))[0]
                await sending
                seen = [] if isinstance(found, BaseException) else found
                seen = seen or await consumer.next_batch(PATIENCE)
                assert [one.body for one in seen] == [str(number).encode()]
                assert await consumer.ack(seen) == [True]

    asyncio.run(main())
    assert StoreBroker(store).stats("jobs").inflight == 0
