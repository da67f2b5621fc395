"""Brokers as streams, without Spark: a driver that dies between any two steps loses no message and doubles none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from localqueue.brokers import Outgoing, capabilities_of
from localqueue.errors import QueueStoreMissingError
from localqueue.spark.options import OptionError
from localqueue.spark.source.typed_payload import CorruptRow
from localqueue.spark.streams import broker_debt
from localqueue.spark.streams.broker_debt import Debt
from localqueue.spark.streams.consumer_record import ConsumerTakenOver
from localqueue.spark.streams.origin import Origin, decode
from tests.spark.broker_places import KINDS, Died, Engine, Place, url_of

pytestmark = pytest.mark.server

#: Where a driver dies: after a step of Spark, or before or after a call of ours to the broker or the claim store.
DEATHS = [
    ("broker", "receive", "after"),
    ("store", "commit", "before"),
    ("store", "commit", "after"),
    "latestOffset",
    "offsets",
    "partitions",
    "sink",
    "commit",
    ("broker", "ack", "before"),
    ("broker", "ack", "after"),
]


@pytest.fixture(params=[*KINDS, "rabbitmq-classic"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(url_of(request.param, request), tmp_path)
    yield place
    place.broker.delete(place.queue)
    place.broker.close()


def die_at(engine: Engine, where: str, call: str, when: str) -> None:
    """Let the next such call of this driver be its last."""
    engine.reader.initialOffset()  # it has taken over
    queue = engine.reader._claimant._store
    owner = queue._broker if where == "broker" else queue._store
    inner = getattr(owner, call)

    def last(*arguments: Any, **options: Any) -> Any:
        setattr(owner, call, inner)
        if when == "after":
            inner(*arguments, **options)
        raise Died(call)

    setattr(owner, call, last)


def test_a_driver_that_dies_between_any_two_steps_loses_and_doubles_nothing(place: Place) -> None:
    engine = Engine(place)
    sent = 0
    for death in [*DEATHS, *reversed(DEATHS)]:
        place.send(range(sent, sent + 4))
        sent += 4
        engine.start()
        if isinstance(death, str):
            engine.dies_after = death
        else:
            die_at(engine, *death)
        with pytest.raises(Died):
            engine.run_until(lambda: False, f"{death} did not happen")
        engine.die()
    engine.start()
    engine.run_until(lambda: len(engine.values()) >= sent, "not all came")
    assert sorted(engine.values()) == list(range(sent))
    engine.run_until(lambda: not engine.batch() and nothing_left(place), "not all were acked")
    assert sorted(engine.values()) == list(range(sent))
    engine.reader.stop()
    assert place.broker.receive(place.queue, 10, wait=0.2) == []
    assert place.broker.stats(place.queue).dead == 0


def nothing_left(place: Place) -> bool:
    ready, inflight, *_ = place.broker.stats(place.queue)
    return not ready and not inflight


@pytest.fixture
def redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = Place(url_of("redis-streams", request), tmp_path)
    yield place
    place.broker.delete(place.queue)
    place.broker.close()


def test_misfits_of_an_earlier_driver_become_dead_letters_though_the_broker_was_not_told(redis: Place) -> None:
    """A claim fails on a schema, is repaired, settled, and the driver dies before the broker hears of it."""
    schema = StructType([StructField("n", IntegerType())])
    redis.broker.send(redis.queue, Outgoing(b'{"n": "bad"}'))
    redis.send(range(2))
    engine = Engine(redis, schema=schema)
    engine.start()
    with pytest.raises(CorruptRow):
        engine.batch()
    engine.die()
    engine.start(corruptRows="dead-letter")
    assert engine.batch()
    die_at(engine, "broker", "ack", "before")
    with pytest.raises(Died):
        engine.batch()
    engine.die()
    assert redis.broker.dead_letters(redis.queue) == []
    engine.start()
    engine.run_until(lambda: not engine.batch() and nothing_left(redis), "not all were settled")
    assert engine.sink == {1: [{"n": 0}, {"n": 1}]}
    (dead,) = redis.broker.dead_letters(redis.queue)
    assert (dead.body, "does not fit the schema" in dead.headers["localqueue-error"]) == (b'{"n": "bad"}', True)
    engine.reader.stop()


def test_an_idle_reader_asks_its_broker_rarely_and_finds_a_message_soon(
    redis: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(redis)
    engine.start()
    assert not engine.batch()
    broker, asked = engine.reader._claimant._store._broker, []
    receive = broker.receive
    monkeypatch.setattr(broker, "receive", lambda *given, **more: asked.append(given) or receive(*given, **more))
    for _ in range(1_000):
        assert not engine.batch()
    assert len(asked) < 10  # one, unless all of this took longer than a broker is asked to wait
    redis.send(range(2))
    engine.run_until(lambda: engine.values() == [0, 1], "they did not come")
    assert engine.reader.reportLatestOffset()["claim"] == 1
    engine.reader.stop()


def test_available_now_takes_what_is_there_and_ends_though_senders_go_on(redis: Place) -> None:
    redis.send(range(7))
    engine = Engine(redis)
    engine.start()
    engine.reader.prepareForTriggerAvailableNow()
    while engine.batch():
        redis.send(range(100, 103))
    assert engine.values() == list(range(7))
    engine.reader.stop()
    assert redis.broker.stats(redis.queue).ready == 9


def test_leases_are_renewed_while_a_batch_runs_and_kept_by_the_next_driver(redis: Place) -> None:
    redis.send(range(3))
    engine = Engine(redis, claimTimeout="0.4")
    engine.start()
    engine.dies_after = "read"
    with pytest.raises(Died):
        engine.batch()
    broker = engine.reader._claimant._store._broker
    renewed, extend = threading.Semaphore(0), broker.extend
    broker.extend = lambda *given: (extend(*given), renewed.release())[0]
    assert all(renewed.acquire(timeout=30) for _ in range(6))  # a lease and a half
    engine.die()
    engine.start(claimTimeout="60")
    assert engine.batch()
    engine.run_until(lambda: not engine.batch() and nothing_left(redis), "not all were acked")
    assert engine.values() == [0, 1, 2]
    engine.reader.stop()


def test_the_older_of_two_queries_of_a_consumer_fails_and_gives_back_what_it_had_received(redis: Place) -> None:
    redis.send(range(6))
    old, new = Engine(redis), Engine(redis)
    old.start()
    assert old.batch()
    new.start()
    new.offsets, new.committed, new.sink = list(old.offsets), old.committed, dict(old.sink)
    assert new.reader.initialOffset() == {"claim": 0}
    with pytest.raises(ConsumerTakenOver, match="consumer 'etl' of queue 'redis-streams:orders_"):
        old.batch()
    old.reader.stop()
    new.run_until(lambda: len(new.values()) >= 6, "not all came")
    assert sorted(new.values()) == list(range(6))
    new.reader.stop()


def test_messages_of_one_id_are_all_rows_and_all_acked(redis: Place) -> None:
    redis.broker.send_batch(redis.queue, [Outgoing(b'{"n": %d}' % n, id="same") for n in (1, 2, 1)])
    engine = Engine(redis)
    engine.start()
    engine.dies_after = "sink"
    with pytest.raises(Died):
        engine.batch()
    engine.die()
    engine.start()
    engine.run_until(lambda: not engine.batch() and nothing_left(redis), "not all were acked")
    assert sorted(engine.values()) == [1, 1, 2]
    engine.reader.stop()


def test_a_message_without_a_name_is_never_lost_and_may_be_a_row_again(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    import pika

    place = Place(url_of("rabbitmq", request), tmp_path)
    connection = pika.BlockingConnection(pika.URLParameters(place.options["url"]))
    for n in range(3):
        connection.channel().basic_publish("", place.queue, b'{"n": %d}' % n)
    connection.close()
    engine = Engine(place)
    engine.start()
    engine.dies_after = "sink"
    with pytest.raises(Died):
        engine.batch()
    engine.die()
    engine.start()
    engine.run_until(lambda: len(engine.values()) >= 6, "they did not come again")
    assert sorted(engine.values()) == [0, 0, 1, 1, 2, 2]
    assert not engine.batch()
    engine.reader.stop()
    assert place.broker.receive(place.queue, wait=0.2) == []
    place.broker.delete(place.queue)
    place.broker.close()


def test_a_queue_that_is_not_there_is_an_error_and_is_not_made(redis: Place) -> None:
    engine = Engine(redis, queue="nowhere")
    engine.start()
    with pytest.raises(QueueStoreMissingError, match="nowhere"):
        engine.batch()
    engine.die()
    with pytest.raises(QueueStoreMissingError):
        redis.broker.stats("nowhere")


def test_what_the_broker_can_not_count_is_refused_by_the_name_of_the_option(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    place = Place(url_of("rabbitmq-classic", request), tmp_path)
    with pytest.raises(OptionError, match="option 'maxAttempts' is not for rabbitmq-classic"):
        place.reader(maxAttempts="3").initialOffset()
    place.broker.delete(place.queue)
    place.broker.close()


class TestDebt:
    """What is remembered of settled claims, by what a broker's acks are worth."""

    def debt(self, broker: str) -> Debt:
        debt = Debt(capabilities_of(broker))
        for claim in ("a", "b"):
            names = [f"{claim}{n}" for n in range(3)]
            debt.claimed(claim, [Origin(name, 1, name, "receipt") for name in names])
            for name in names:
                debt.owe(name, claim, None)
        return debt

    def written(self, debt: Debt) -> dict[str, list[str] | None]:
        writes = {one.key: one.value for one in debt.writes({}, ())}
        debt.written()
        return {key: None if value is None else [one.name for one in decode(value)] for key, value in writes.items()}

    @pytest.mark.parametrize("broker", ["redis-streams", "pgmq", "kafka"])
    def test_an_answered_ack_ends_it(self, broker: str) -> None:
        debt = self.debt(broker)
        debt.paid(["a0", "a1", "a2", "b1"], [])
        assert ("a0" in debt, "b0" in debt, "b1" in debt) == (False, True, False)
        assert self.written(debt) == {"a": None, "b": ["b0", "b2"]}
        assert self.written(debt) == {}

    @pytest.mark.parametrize("broker", ["sqs", "rabbitmq"])
    def test_where_messages_come_again_the_last_names_are_kept(
        self, broker: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        debt = self.debt(broker)
        debt.paid(["a0", "a1"], ["a2"])  # a dead letter that somebody sends again is new
        assert ("a0" in debt, "a2" in debt) == (True, False)
        assert self.written(debt) == {"a": ["a0", "a1"]}
        monkeypatch.setattr(broker_debt, "REMEMBERED", 4)
        debt.paid(["b0"], [])
        assert ("a0" in debt, "b2" in debt) == (False, True)
        assert self.written(debt)["a"] is None
