"""Threads on one store: every message to exactly one consumer, every commit whole."""

from __future__ import annotations

import threading

from localqueue.contracts.steps import (
    PATIENCE,
    Background,
    ack,
    assert_sound,
    counts,
    lease,
    new,
    override,
    put,
    put_many,
    stored,
    take,
)
from localqueue.errors import LeaseLost
from localqueue.stores.port import Changes, QueueStore, RecordWrite, Settle


class ThreadContract:
    def test_four_threads_claim_500_messages_exactly_once_each(self, live: QueueStore) -> None:
        ids = put_many(live, (str(n) for n in range(500)))
        claimed: list[str] = []

        def consume(limit: int) -> None:
            while found := lease(live, limit=limit, timeout=300):
                claimed.extend(message.id for message in found)
                for message in found:
                    assert ack(live, message)

        threads = Background()
        for limit in (1, 1, 3, 10):
            threads.start(consume, limit)
        threads.join()
        assert sorted(claimed) == ids
        assert counts(live) == {}
        assert_sound(live)

    def test_producers_and_consumers_together_lose_and_repeat_nothing(self, live: QueueStore) -> None:
        produced: list[str] = []
        consumed: list[str] = []
        finished = threading.Event()

        def produce(name: str) -> None:
            for n in range(60):
                produced.append(put(live, payload=f"{name}{n}", ordering_key=name))

        def consume() -> None:
            with live.listen(["jobs"]) as waiter:
                while len(consumed) < 240 and not finished.is_set():
                    found = lease(live, limit=2, timeout=300)
                    if not found:
                        waiter.wait(0.05)
                    for message in found:
                        assert ack(live, message)
                        consumed.append(message.id)
            finished.set()

        threads = Background()
        for name in "abcd":
            threads.start(produce, name)
        for _ in range(4):
            threads.start(consume)
        threads.join()
        assert sorted(consumed) == sorted(produced)
        assert_sound(live)

    def test_of_many_threads_that_settle_one_lease_one_succeeds(self, live: QueueStore) -> None:
        for _ in range(10):
            put(live)
            message = take(live)
            go = threading.Barrier(4)
            outcomes: list[str] = []

            def settle(n: int) -> None:
                go.wait(PATIENCE)  # noqa: B023
                changes = Changes(
                    enqueue=[new(live, "follow-up", str(n))],
                    settle=[Settle("jobs", message.id, "ack", message.attempts)],  # noqa: B023
                    records=[RecordWrite("result", message.id, str(n).encode())],  # noqa: B023
                )
                try:
                    live.commit(changes)
                    outcomes.append("done")  # noqa: B023
                except LeaseLost:
                    outcomes.append("lost")  # noqa: B023

            threads = Background()
            for n in range(4):
                threads.start(settle, n)
            threads.join()
            assert sorted(outcomes) == ["done", "lost", "lost", "lost"]
            record = live.record("result", message.id)
            assert record is not None
            assert take(live, "follow-up").payload == record.value.decode()
            assert lease(live, "follow-up") == []

    def test_threads_that_ack_the_parts_free_the_join_once(self, live: QueueStore) -> None:
        ids = put_many(live, (str(n) for n in range(100)))
        join = put(live, "joins", after=tuple(ids))

        def consume() -> None:
            while found := lease(live, timeout=300):
                assert ack(live, found[0])

        threads = Background()
        for _ in range(4):
            threads.start(consume)
        threads.join()
        assert stored(live, join, "joins").state == "ready"
        assert len(lease(live, "joins", limit=5)) == 1
        assert_sound(live, ["jobs", "joins"])

    def test_one_failing_commit_does_not_harm_those_beside_it(self, live: QueueStore) -> None:
        put(live, dedupe_key="seed")
        good: list[str] = []

        def fail() -> None:
            for _ in range(40):
                try:
                    live.commit(
                        Changes(enqueue=[new(live, payload="bad")], settle=[Settle("jobs", "0" * 32, "ack", 1)])
                    )
                except LeaseLost:
                    continue
                raise AssertionError("a commit with a stale lease was accepted")

        def succeed(n: int) -> None:
            good.extend(put(live, f"new-{n}-{m}", payload="good") for m in range(40))

        threads = Background()
        for n in range(3):
            threads.start(fail)
            threads.start(succeed, n)
        threads.join()
        queues = [f"new-{n}-{m}" for n in range(3) for m in range(40)]
        found = [message for queue in queues for message in live.scan(queue)]
        assert sorted(good) == sorted(message.id for message in found)
        assert counts(live) == {"ready": 1}
        assert all(override(live, message.id, "ack", message.queue) for message in found)
        assert_sound(live, [*queues, "jobs"])
