"""Brokers as streams, without Spark: a driver that dies between any two steps loses no message and doubles none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
