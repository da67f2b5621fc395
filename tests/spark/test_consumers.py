"""Consumers seen and steered from outside, on every store and without Spark: nothing is lost, and nobody is disturbed
who is not meant."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localqueue.spark import consumer, consumers, forget_consumer, release_consumer, release_consumers, reset_consumer
from localqueue.spark.streams.claims import Claims, ClaimsLost
from localqueue.spark.streams.consumer_record import CLAIMS, CONSUMERS, PRESENCE, VERDICTS, ConsumerTakenOver
from localqueue.spark.streams.consumers import UnknownConsumer
from localqueue.stores.port import Changes, LeaseRequest, NewMessage, QueueStore, RecordWrite
from tests.stores import SHARED, new_place

Driver = Callable[..., Claims]


@pytest.fixture(params=SHARED)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with new_place(request.param, tmp_path).open() as store:
        yield store


@pytest.fixture
def driver(store: QueueStore) -> Driver:
    return lambda name="etl", queue="jobs": Claims(store, queue, name, timeout=86_400.0)


def put(store: QueueStore, count: int, key: str | None = None) -> None:
    new = [NewMessage(one, "jobs", json.dumps({"n": n}), ordering_key=key) for n, one in enumerate(store.mint(count))]
    store.commit(Changes(enqueue=new))


def silence(store: QueueStore, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """As if so much time had passed since."""
    now = store.now
    monkeypatch.setattr(store, "now", lambda: now() + seconds)


def test_a_consumer_is_listed_with_its_lag_and_what_it_holds(
    store: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert consumers(store) == []
    put(store, 5)
    put(store, 4, key="k")
    claims = driver()
    began = store.now()
    claims.claim(2)
    driver("idle", "other:jobs").settle(0)
    one, other = consumers(store)
    assert (one.queue, one.consumer, other.queue, other.consumer) == ("jobs", "etl", "other:jobs", "idle")
    assert (one.settled, one.claim, one.held, one.runs, one.lag_rows) == (0, 1, 2, 1, 7)
    assert one.lag_seconds is not None and one.lag_seconds >= 0
    assert one.claimed_at is not None and one.claimed_at >= began - 1
    assert one.running and one.driver is not None and one.seen_at is not None
    assert (other.held, other.claimed_at, other.lag_rows, other.lag_seconds) == (0, None, 0, 0.0)
    claims.settle(1)
    claims.claim(None)  # the run of the key too, of which all but the first are blocked
    assert consumers(store, "jobs")[0] == consumer(store, "jobs", "etl")
    held = consumer(store, "jobs", "etl")
    assert (held.held, held.lag_rows, held.settled) == (7, 0, 1)
    silence(store, monkeypatch, 3600.0)
    assert not consumer(store, "jobs", "etl").running
    assert json.loads(json.dumps(held.as_dict()))["held"] == 7


def test_a_sign_of_life_tells_a_long_batch_from_a_driver_that_is_gone(store: Any, driver: Driver) -> None:
    put(store, 1)
    claims = driver()
    claims.live()
    assert store.record(PRESENCE, "jobs:etl") is None
    claims.claim(1)
    before = consumer(store, "jobs", "etl").seen_at
    claims.live()
    after = store.record(PRESENCE, "jobs:etl").updated_at
    assert before is not None and consumer(store, "jobs", "etl").seen_at == max(before, after)
    driver().settle(0)
    claims.live()  # of somebody who is not the driver any more
    record = store.record(CONSUMERS, "jobs:etl")
    assert consumer(store, "jobs", "etl").seen_at == record.updated_at


def test_a_released_claim_goes_back_and_its_query_can_not_settle_it(store: Any, driver: Driver) -> None:
    put(store, 3)
    put(store, 4, key="k")
    claims = driver()
    claims.claim(None)
    ahead = driver("other")
    put(store, 2)
    ahead.prepare(2)  # another consumer, which is not touched
    assert release_consumer(store, "jobs", "etl") == 7
    for refused in (lambda: claims.settle(1), lambda: claims.claim(5), lambda: claims.chunks(0, 1)):
        with pytest.raises(ConsumerTakenOver, match="or released"):
            refused()
    status = consumer(store, "jobs", "etl")
    assert (status.held, status.claimed_at, status.running, status.driver, status.seen_at) == (
        0,
        None,
        False,
        None,
        None,
    )
    stats = store.stats("jobs")
    assert (stats.inflight, stats.ready, stats.blocked) == (2, 4, 3)
    assert (store.records(CLAIMS), store.records(VERDICTS)) == ([], [])
    taken = store.lease(LeaseRequest("jobs", 100, 60.0, "worker"))
    assert len(taken) == 4 and {one.attempts - one.forgiven for one in taken} == {1}
    assert release_consumer(store, "jobs", "etl") == 0
    assert store.check().ok


def test_a_query_that_comes_back_after_a_release_goes_on_with_an_empty_batch(store: Any, driver: Driver) -> None:
    put(store, 3)
    first = driver()
    first.claim(2)
    first.settle(1)
    first.claim(2)
    release_consumer(store, "jobs", "etl")
    for start in (1, 2):  # whether or not Spark had logged the batch
        back = driver()
        back.settle(start)
        assert (back.claimed, back.chunks(1, 2)) == (2, [])
    back.settle(2)
    assert back.claim(5) == 1
    back.settle(3)
    assert store.stats("jobs").total == 0


def test_leases_of_a_driver_that_died_before_its_claim_are_released_too(store: Any, driver: Driver) -> None:
    put(store, 3)
    driver().prepare(2)
    assert consumer(store, "jobs", "etl").held == 0
    assert release_consumer(store, "jobs", "etl") == 2
    assert store.stats("jobs").ready == 3


def test_a_driver_that_starts_while_its_consumer_is_released_keeps_what_it_takes(
    store: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 4)
    driver().claim(2)
    scan, new = store.scan, driver()

    def scan_late(*args: Any, **more: Any) -> Any:
        monkeypatch.setattr(store, "scan", scan)
        new.settle(0)
        new.settle(1)
        assert new.claim(10) == 4
        return scan(*args, **more)

    monkeypatch.setattr(store, "scan", scan_late)
    with pytest.raises(ConsumerTakenOver):
        release_consumer(store, "jobs", "etl")
    new.settle(2)
    assert store.stats("jobs").total == 0


def test_those_that_are_silent_are_released_in_bulk_and_the_others_are_not(
    store: Any, driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, 6)
    for name in ("a", "b"):
        driver(name).claim(2)
    release_consumer(store, "jobs", "b")
    assert release_consumers(store, older_than=3600.0) == {}
    silence(store, monkeypatch, 7200.0)
    assert release_consumers(store, older_than=3600.0, queue="other") == {}
    released = release_consumers(store, older_than=3600.0)
    assert {one.consumer: count for one, count in released.items()} == {"a": 2}
    assert store.stats("jobs").ready == 6
    assert release_consumers(store, older_than=0.0) == {}


def test_a_reset_gives_back_and_counts_on_from_where_the_checkpoint_is(store: Any, driver: Driver) -> None:
    put(store, 5)
    claims = driver()
    for start in range(2):
        claims.settle(start)
        claims.claim(2)
    assert reset_consumer(store, "jobs", "etl", to=7) == 2
    with pytest.raises(ConsumerTakenOver):
        claims.settle(2)
    back = driver()
    back.settle(7)
    assert (back.claim(10), back.claimed) == (3, 8)
    assert len(back.chunks(7, 8)) == 1
    assert reset_consumer(store, "jobs", "etl") == 3
    assert (driver().settled, store.stats("jobs").ready) == (0, 3)
    assert [len(store.records(kind)) for kind in (CLAIMS, VERDICTS)] == [0, 0]
    for wrong in (-1, True, "3"):
        with pytest.raises(ValueError, match="to must be the number of a claim, 0 or more"):
            reset_consumer(store, "jobs", "etl", to=wrong)  # type: ignore[arg-type]


def test_a_forgotten_consumer_leaves_its_messages_and_nothing_else(store: Any, driver: Driver) -> None:
    put(store, 3)
    claims = driver()
    claims.claim(2)
    claims.live()
    driver("etl2").settle(0)
    assert forget_consumer(store, "jobs", "etl") == 2
    assert [one.consumer for one in consumers(store)] == ["etl2"]
    assert [len(store.records(kind)) for kind in (CONSUMERS, CLAIMS, VERDICTS, PRESENCE)] == [1, 0, 0, 0]
    with pytest.raises(ConsumerTakenOver):
        claims.settle(1)
    anew = driver()
    with pytest.raises(ClaimsLost, match="the checkpoint is at claim 1 and the last one there is is 0"):
        anew.settle(1)
    with pytest.raises(ConsumerTakenOver):  # also when there is one of that name again
        claims.settle(1)
    assert store.stats("jobs").ready == 3


def test_a_consumer_that_is_not_there_is_told_with_those_that_are(store: Any, driver: Driver) -> None:
    with pytest.raises(UnknownConsumer, match=r"queue 'jobs' has no consumer 'x'; nobody has consumed anything"):
        consumer(store, "jobs", "x")
    driver("a").settle(0)
    driver("b").settle(0)
    for ask in (consumer, release_consumer, reset_consumer, forget_consumer):
        with pytest.raises(UnknownConsumer, match="queue 'jobs' has no consumer 'x'; it has 'a', 'b'"):
            ask(store, "jobs", "x")
        with pytest.raises(
            UnknownConsumer, match="queue 'z' has no consumer 'a'; there are 'a' of 'jobs', 'b' of 'jobs'"
        ):
            ask(store, "z", "a")
    assert store.record(CONSUMERS, "z:a") is None


def test_what_a_consumer_of_a_broker_held_is_new_when_it_comes_again(tmp_path: Path) -> None:
    with new_place("sqlite", tmp_path).open() as store:
        claims = Claims(store, "rabbitmq:jobs", "etl", timeout=60.0, broker=True)
        claims.settle(0)
        store.put_batch("rabbitmq:jobs", ["1", "2"], None)
        claims.claim(2)
        key = "rabbitmq%3Ajobs:etl:000000000001:0000"
        store.commit(Changes(records=[RecordWrite("spark-origin", key, b"names")]))
        status = consumer(store, "rabbitmq:jobs", "etl")
        assert (status.broker, status.held, status.lag_rows, status.lag_seconds) == (True, 2, None, None)
        release_consumer(store, "rabbitmq:jobs", "etl")
        assert store.records("spark-origin") == []
        store.commit(Changes(records=[RecordWrite("spark-origin", key, b"names")]))
        reset_consumer(store, "rabbitmq:jobs", "etl", to=1)
        assert len(store.records("spark-origin")) == 1  # acked: a message of it that comes again is known
        forget_consumer(store, "rabbitmq:jobs", "etl")
        assert store.records("spark-origin") == []


def test_it_needs_neither_spark_nor_arrow(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['pyspark'] = sys.modules['pyarrow'] = None\n"
        "from localqueue.spark import consumers, release_consumers\n"
        "from localqueue.stores.url import open_store\n"
        f"with open_store('sqlite:///{tmp_path}/x.db') as store:\n"
        "    print(consumers(store), release_consumers(store, older_than=1.0))\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"[] {}\n"
