"""The transactional outbox and its relay: in order, at least once, resumable."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue import PersistentQueue
from localqueue.policies import (
    NoDeduplication,
    PublishSubscribeRouting,
    ReturnStoredResult,
    StaticFanoutSubscriptions,
    TransactionalOutboxCommit,
)
from localqueue.results import MemoryResultStore, SQLiteResultStore
from localqueue.stores.sqlite import MemoryQueueStore
from localqueue.workers import OutboxRelay
from tests.unit.effects import KINDS, RUNS, keyed, open_queue_store, run_in_threads

pytestmark = pytest.mark.by_turns

Run = Callable[..., list[Any]]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with open_queue_store(request.param, tmp_path) as store:
        yield store


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


def with_outbox(store: Any, **options: Any) -> PersistentQueue[Any]:
    policy = TransactionalOutboxCommit(outbox_store=options.pop("outbox_store", None))
    return keyed(store, commit_policy=policy, **options)


def work(queue: PersistentQueue[Any], *values: Any, run: Run = run_in_threads) -> None:
    for value in values:
        queue.put(value, dedupe_key=f"key-{value}")
    run(queue, lambda value: value)


class Target:
    """Takes envelopes, unless it is told to fail first."""

    def __init__(self, *errors: BaseException) -> None:
        self.taken: list[dict[str, Any]] = []
        self._errors = list(errors)

    def __call__(self, envelope: dict[str, Any]) -> None:
        if self._errors:
            raise self._errors.pop(0)
        self.taken.append(envelope)

    @property
    def results(self) -> list[Any]:
        return [envelope["result"] for envelope in self.taken]


def test_envelopes_reach_a_callable_in_the_order_of_the_acks(store: Any, run: Run) -> None:
    queue, target = with_outbox(store), Target()
    work(queue, *range(5), run=run)
    relay = OutboxRelay(queue, target)
    assert relay.pending() == 5
    assert relay.run_until_empty(signals=False).acked == 5
    assert relay.pending() == 0
    assert sorted(target.results) == list(range(5))
    if run is run_in_threads:
        assert target.results == list(range(5))
    assert set(target.taken[0]) == {"queue", "message_id", "dedupe_key", "result_key", "result"}
    assert (target.taken[0]["queue"], target.taken[0]["result_key"]) == ("jobs", None)


def test_a_target_that_fails_is_asked_again_before_the_next_envelope_is_sent(store: Any) -> None:
    queue, target = with_outbox(store), Target(OSError("down"), OSError("down"))
    work(queue, 1, 2, 3)
    OutboxRelay(queue, target).run_until_empty(signals=False)
    assert target.results == [1, 2, 3]


@pytest.mark.parametrize("error", [ImportError("no module"), NameError("no name")])
def test_an_error_that_a_worker_would_bury_does_not_let_the_next_envelope_overtake(error: BaseException) -> None:
    with MemoryQueueStore() as store:
        queue, target = with_outbox(store), Target(error)
        work(queue, 1, 2)
        OutboxRelay(queue, target).run_until_empty(signals=False)
        assert target.results == [1, 2]


def test_a_stopped_relay_goes_on_where_it_stopped(store: Any) -> None:
    queue, taken = with_outbox(store), []
    work(queue, *range(4))

    def target(envelope: dict[str, Any]) -> None:
        taken.append(envelope["result"])
        if len(taken) == 2:
            relay.stop()

    relay = OutboxRelay(queue, target)
    relay.run(signals=False)
    assert taken == [0, 1]
    OutboxRelay(queue, target).run_until_empty(signals=False)
    assert taken == [0, 1, 2, 3]


def test_a_queue_of_the_same_store_gets_each_envelope_once(store: Any) -> None:
    queue = with_outbox(store)
    target: PersistentQueue[Any] = PersistentQueue("events", store=store)
    work(queue, 1, 2, 3)
    OutboxRelay(queue, target).run_until_empty(signals=False)
    assert [message.value["result"] for message in target.get_messages(9, block=False)] == [1, 2, 3]


@pytest.mark.parametrize("deduplicates", [True, False])
def test_a_queue_of_another_store_gets_the_envelopes(store: Any, deduplicates: bool) -> None:
    queue = with_outbox(store)
    work(queue, 1, 2, 3)
    with MemoryQueueStore() as other:
        policy = None if deduplicates else NoDeduplication()
        target: PersistentQueue[Any] = PersistentQueue("events", store=other, deduplication_policy=policy)
        OutboxRelay(queue, target).run_until_empty(signals=False)
        messages = target.get_messages(9, block=False)
        assert [message.value["result"] for message in messages] == [1, 2, 3]
        assert all(bool(message.dedupe_key) is deduplicates for message in messages)


def test_a_topic_of_the_same_store_publishes_the_envelopes(store: Any) -> None:
    queue = with_outbox(store)
    topic: PersistentQueue[Any] = PersistentQueue(
        "events",
        store=store,
        routing_policy=PublishSubscribeRouting(),
        subscription_policy=StaticFanoutSubscriptions(("a", "b")),
    )
    work(queue, 1, 2)
    OutboxRelay(queue, topic).run_until_empty(signals=False)
    for name in "ab":
        received = topic.subscriber_queue(name).get_messages(9, block=False)
        assert [message.value["result"] for message in received] == [1, 2]


def test_a_failed_message_leaves_no_envelope(store: Any, run: Run) -> None:
    queue = with_outbox(store)
    queue.put(1, dedupe_key="k")

    def fail(value: int) -> None:
        raise ValueError

    run(queue, fail)
    assert OutboxRelay(queue, Target()).pending() == 0


def test_an_envelope_names_the_key_of_a_result_in_a_result_store(store: Any) -> None:
    results, target = MemoryResultStore(), Target()
    queue = with_outbox(store, result_policy=ReturnStoredResult(result_store=results))
    work(queue, 1)
    OutboxRelay(queue, target).run_until_empty(signals=False)
    (envelope,) = target.taken
    assert results.load(envelope["result_key"]) == 1


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_outbox_in_a_store_of_its_own_is_relayed_in_order(kind: str, tmp_path: Path, store: Any) -> None:
    outbox: Any = MemoryResultStore() if kind == "memory" else SQLiteResultStore(tmp_path / "outbox.sqlite3")
    queue, target = with_outbox(store, outbox_store=outbox), Target(OSError("down"))
    work(queue, *(9, 3, 7))
    relay = OutboxRelay(queue, target)
    assert relay.pending() == 3
    assert "outbox:dedupe:jobs:key-9" in outbox.keys("outbox:")
    assert relay.run_until_empty(signals=False).acked == 3
    assert target.results == [9, 3, 7]
    assert "at" not in target.taken[0]
    assert outbox.keys() == []
    outbox.close()


def test_a_relay_of_an_outbox_of_its_own_runs_until_it_is_stopped() -> None:
    with MemoryQueueStore() as store:
        queue, came = with_outbox(store, outbox_store=MemoryResultStore()), threading.Event()
        relay = OutboxRelay(queue, lambda envelope: came.set())
        thread = threading.Thread(target=lambda: relay.run(signals=False))
        thread.start()
        work(queue, 1)
        assert came.wait(30)
        relay.stop()
        thread.join(30)
        assert not thread.is_alive()


def test_a_relay_refuses_what_it_can_not_drain() -> None:
    class NoKeys:
        def load(self, key: str) -> None: ...
        def save(self, key: str, value: Any) -> None: ...
        def delete(self, key: str) -> None: ...

    with MemoryQueueStore() as store:
        with pytest.raises(ValueError, match="has no outbox"):
            OutboxRelay(keyed(store), print)
        with pytest.raises(TypeError, match="needs an outbox_store with keys"):
            OutboxRelay(with_outbox(store, outbox_store=NoKeys()), print)
