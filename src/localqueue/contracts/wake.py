"""Wake-ups: who waits is woken by what it waits for, and no wake is lost between looking and waiting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from localqueue.contracts.steps import (
    MOMENT,
    PATIENCE,
    Background,
    ack,
    lease,
    override,
    put,
    put_many,
    release,
    take,
)
from localqueue.errors import QueueStoreClosedError
from localqueue.stores.port import BellWaiter, QueueStore, StoredMessage, Waiter


class Waiting:
    """Waits in a thread; `woken()` says whether it was woken, not timed out."""

    def __init__(self, waiter: Waiter) -> None:
        self._result: list[bool] = []
        self._started = threading.Event()
        self._threads = Background()
        self._threads.start(self._wait, waiter)
        assert self._started.wait(PATIENCE)

    def _wait(self, waiter: Waiter) -> None:
        self._started.set()
        self._result.append(waiter.wait(PATIENCE / 2))

    def woken(self) -> bool:
        self._threads.join()
        return self._result == [True]


def _take_when_woken(live: QueueStore, waiter: Waiter, since: float, seconds: float) -> StoredMessage:
    """A message that comes when so many seconds have passed. A busy machine may find it there, and waits for none."""
    found = lease(live)
    if not found:
        assert waiter.wait(PATIENCE)
        found = lease(live)
    assert time.monotonic() - since > 0.9 * seconds
    (message,) = found
    return message


class WakeContract:
    def test_a_put_in_another_thread_wakes(self, live: QueueStore) -> None:
        with live.listen(["jobs"]) as waiter:
            waiting = Waiting(waiter)
            put(live)
            assert waiting.woken()

    def test_a_bell_is_rung_by_what_is_waited_for_until_the_waiter_is_closed(self, live: QueueStore) -> None:
        with live.listen(["jobs"]) as waiter:
            if not isinstance(waiter, BellWaiter):
                return  # those who may not block look again and again
            rung = threading.Event()
            waiter.ring(rung.set)
            found, seconds = waiter.look()
            assert not found
            assert seconds > 0
            put(live)
            assert rung.wait(PATIENCE)
            assert waiter.look()[0]
        rung.clear()
        put(live)
        assert not rung.wait(MOMENT)

    def test_a_bell_is_rung_for_each_who_waits_beside_a_thread_that_does(self, live: QueueStore) -> None:
        with live.listen(["jobs"]) as blocking, live.listen(["jobs"]) as one, live.listen(["jobs"]) as other:
            waiting = Waiting(blocking)
            rung = threading.Event(), threading.Event()
            for waiter, bell in zip((one, other), rung, strict=True):
                if isinstance(waiter, BellWaiter):
                    waiter.ring(bell.set)
                else:
                    bell.set()
            put(live)
            assert waiting.woken()
            assert all(bell.wait(PATIENCE) for bell in rung)

    def test_put_one_in_another_thread_wakes(self, live: QueueStore) -> None:
        for _ in range(2):  # the first put of a queue may take another path than the next
            with live.listen(["jobs"]) as waiter:
                waiting = Waiting(waiter)
                message_id, _ = live.put_one("jobs", "x", None)
                assert waiting.woken()
            assert live.ack_one("jobs", message_id, take(live).attempts)

    def test_a_listener_of_several_queues_is_woken_by_any(self, live: QueueStore) -> None:
        with live.listen(["a", "b", "c"]) as waiter:
            waiting = Waiting(waiter)
            put(live, "c")
            assert waiting.woken()

    def test_every_listener_of_a_queue_is_woken(self, live: QueueStore) -> None:
        waiters = [live.listen(["jobs"]) for _ in range(5)]
        waiting = [Waiting(waiter) for waiter in waiters]
        put_many(live, "abcde")
        assert all(one.woken() for one in waiting)
        for waiter in waiters:
            waiter.close()

    def test_a_put_elsewhere_does_not_wake(self, live: QueueStore) -> None:
        put(live, "jobs")
        take(live)
        with live.listen(["jobs"]) as waiter:
            put(live, "other")
            assert not waiter.wait(MOMENT)

    def test_a_message_that_is_there_already_is_not_waited_for(self, live: QueueStore) -> None:
        put(live)
        with live.listen(["jobs"]) as waiter:
            assert waiter.wait(0)
            assert waiter.wait(PATIENCE)

    def test_no_wake_is_lost_between_a_lease_that_found_nothing_and_the_wait(self, live: QueueStore) -> None:
        with live.listen(["jobs"]) as waiter:
            for _ in range(20):
                assert lease(live) == []
                put(live)
                assert waiter.wait(PATIENCE)
                assert ack(live, take(live))

    def test_a_consumer_that_waits_misses_nothing_of_a_producer_that_does_not(self, live: QueueStore) -> None:
        seen = 0
        threads = Background()
        threads.start(lambda: [put(live) for _ in range(200)])
        with live.listen(["jobs"]) as waiter:
            while seen < 200:
                found = lease(live, limit=7)
                seen += len(found)
                if not found:
                    assert waiter.wait(PATIENCE)
        threads.join()

    def test_a_wait_ends_at_its_timeout(self, live: QueueStore) -> None:
        with live.listen(["jobs"]) as waiter:
            start = time.monotonic()
            assert not waiter.wait(0.1)
            assert 0.09 <= time.monotonic() - start < PATIENCE
            assert not waiter.wait(0)

    def test_who_leases_by_himself_hears_the_same(self, live: QueueStore) -> None:
        with live.listen(["jobs"]) as waiter:
            assert not waiter.heard(0)
            put(live, "other")
            assert not waiter.heard(MOMENT)
            put(live)
            assert waiter.heard(PATIENCE)

    def test_a_delayed_message_wakes_when_it_is_due(self, live: QueueStore) -> None:
        start = time.monotonic()
        put(live, delay=0.2)
        with live.listen(["jobs"]) as waiter:
            _take_when_woken(live, waiter, start, 0.2)

    def test_a_delayed_message_put_while_waiting_wakes_when_it_is_due(self, live: QueueStore) -> None:
        with live.listen(["jobs"]) as waiter:
            waiting = Waiting(waiter)
            put(live, delay=0.2)
            assert waiting.woken()
            take(live)

    def test_an_expired_lease_wakes(self, live: QueueStore) -> None:
        put(live)
        start = time.monotonic()
        take(live, timeout=0.2)
        with live.listen(["jobs"]) as waiter:
            assert _take_when_woken(live, waiter, start, 0.2).attempts == 2

    def test_a_release_wakes(self, live: QueueStore) -> None:
        put(live)
        message = take(live)
        with live.listen(["jobs"]) as waiter:
            waiting = Waiting(waiter)
            release(live, message)
            assert waiting.woken()

    def test_a_delayed_message_that_an_operator_makes_ready_wakes(self, live: QueueStore) -> None:
        put(live, delay=600.0)
        (message,) = live.scan("jobs")
        with live.listen(["jobs"]) as waiter:
            assert not waiter.wait(0)
            waiting = Waiting(waiter)
            assert override(live, message.id, "release", delay=0.0)
            assert waiting.woken()
            take(live)

    def test_an_ack_that_frees_a_dependent_or_a_key_wakes(self, live: QueueStore) -> None:
        first = put(live, "first", ordering_key="k")
        put(live, "second", after=(first,))
        put(live, "first", ordering_key="k")
        message = take(live, "first")
        with live.listen(["first"]) as own, live.listen(["second"]) as other:
            waiting = Waiting(own), Waiting(other)
            ack(live, message)
            assert all(one.woken() for one in waiting)

    def test_a_requeue_wakes(self, live: QueueStore) -> None:
        override(live, put(live), "dead-letter")
        with live.listen(["jobs"]) as waiter:
            waiting = Waiting(waiter)
            live.requeue("jobs")
            assert waiting.woken()

    def test_a_paused_queue_wakes_nobody_until_it_is_resumed(self, live: QueueStore) -> None:
        live.pause("jobs")
        put(live)
        put(live, delay=0.01)
        with live.listen(["jobs"]) as waiter:
            assert not waiter.wait(MOMENT)
            waiting = Waiting(waiter)
            live.resume("jobs")
            assert waiting.woken()
            take(live)

    def test_a_paused_worker_is_not_woken_until_it_is_resumed(self, live: QueueStore) -> None:
        live.pause("jobs", worker="w")
        put(live)
        put(live, delay=0.01)
        with live.listen(["jobs"], worker="w") as waiter, live.listen(["jobs"], worker="v") as other:
            assert other.wait(PATIENCE)
            assert not waiter.wait(MOMENT)
            waiting = Waiting(waiter)
            live.resume("jobs", worker="w")
            assert waiting.woken()
            take(live, leased_by="w")

    def test_a_paused_worker_does_not_hide_the_timer_of_another_queue(self, live: QueueStore) -> None:
        live.pause("paused", worker="w")
        put(live, "paused")
        put(live, "delayed", delay=0.2)
        with live.listen(["delayed", "paused"], worker="w") as waiter:
            assert waiter.wait(PATIENCE)

    def test_a_paused_queue_does_not_hide_the_timer_of_another(self, live: QueueStore) -> None:
        live.pause("paused")
        put(live, "delayed", delay=0.2)
        with live.listen(["delayed", "paused"]) as waiter:
            assert waiter.wait(PATIENCE)

    def test_a_producer_that_waits_for_room_is_woken_by_a_lease_an_ack_and_a_purge(self, live: QueueStore) -> None:
        ways: tuple[Callable[[str], object], ...] = (
            lambda _: take(live),
            lambda first: override(live, first, "ack"),
            lambda _: live.purge("jobs"),
        )
        for make_room in ways:
            first, _ = put_many(live, "ab")
            with live.listen_capacity({"jobs": 2}) as waiter:
                assert not waiter.wait(0)
                waiting = Waiting(waiter)
                make_room(first)
                assert waiting.woken()
            live.purge("jobs")

    def test_a_producer_for_several_queues_waits_until_all_have_room(self, live: QueueStore) -> None:
        put(live, "a")
        put(live, "b")
        with live.listen_capacity({"a": 1, "b": 1, "c": 1}) as waiter:
            take(live, "a")
            assert not waiter.wait(MOMENT)
            waiting = Waiting(waiter)
            take(live, "b")
            assert waiting.woken()

    def test_a_producer_that_waits_for_room_is_woken_when_a_message_expires(self, live: QueueStore) -> None:
        start = time.monotonic()
        put(live, ttl=0.2)
        with live.listen_capacity({"jobs": 1}) as waiter:
            assert waiter.wait(PATIENCE)
            assert time.monotonic() - start > 0.18

    def test_closing_the_store_ends_a_wait(self, live: QueueStore) -> None:
        ended = threading.Event()
        started = threading.Event()
        waiter = live.listen(["jobs"])

        def wait() -> None:
            started.set()
            try:
                waiter.wait(PATIENCE * 2)
            except QueueStoreClosedError:
                ended.set()

        threads = Background()
        threads.start(wait)
        assert started.wait(PATIENCE)
        live.close()
        assert ended.wait(PATIENCE), "close() left a thread waiting"
        threads.join()

    def test_closing_a_waiter_twice_is_harmless(self, live: QueueStore) -> None:
        waiter = live.listen(["jobs"])
        waiter.close()
        waiter.close()
