"""Brokers as streams in Spark itself: two of them, queries that are stopped or killed, and each message one row."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from localqueue.brokers import Outgoing
from tests.spark.broker_places import Place, url_of
from tests.spark.kills import descendants

DEADLINE = 120.0


def start(spark: Any, place: Place, folder: Path, *, now: bool = True) -> Any:
    rows = (
        spark.readStream.format("localqueue")
        .options(**{**place.options, "maxOffsetsPerTrigger": "40", "corruptRows": "dead-letter"})
        .schema("n int, _id string, _queue string, _headers map<string,string>")
        .load()
    )
    writer = rows.writeStream.format("parquet").option("path", f"{folder}/table")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return (writer.trigger(availableNow=True) if now else writer.trigger(processingTime="0 seconds")).start()


def wait_for(happened: Any, what: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def stream_readers() -> list[int]:
    """The Python processes that hold stream readers: not those that run tasks."""
    found = []
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if b"python_streaming_source_runner" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.mark.server
def test_brokers_are_consumed_exactly_once_though_their_readers_are_killed(
    spark: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    bad = Outgoing(b'{"n": "bad"}')
    places: dict[Path, Place] = {}
    for kind in ("rabbitmq", "redis-streams"):
        folder = tmp_path / kind
        folder.mkdir()
        place = places[folder] = Place(url_of(kind, request), folder)
        place.broker.send(place.queue, bad)
        place.send(range(100))
    queries = [start(spark, place, folder, now=False) for folder, place in places.items()]
    wait_for(lambda: all(list(folder.glob("checkpoint/commits/[0-9]*")) for folder in places), "a batch of each")
    for reader in stream_readers():
        os.kill(reader, signal.SIGKILL)
    for place in places.values():
        place.send(range(100, 150))
    wait_for(lambda: all(query.exception() is not None for query in queries), "the end of queries without readers")

    queries = [start(spark, place, folder, now=False) for folder, place in places.items()]
    wait_for(lambda: not any(any(one.broker.stats(one.queue)[:2]) for one in places.values()), "all acks")
    wait_for(lambda: all(table(spark, folder).count() >= 150 for folder in places), "all rows")
    for query in queries:
        report = query.lastProgress["sources"][0]["latestOffset"]
        assert "backlog" in (report if isinstance(report, dict) else json.loads(report))
        query.stop()
    for query in [start(spark, place, folder) for folder, place in places.items()]:
        query.awaitTermination()  # what Spark had committed and was not asked about is acked
    for folder, place in places.items():
        rows = table(spark, folder).collect()
        assert sorted(row["n"] for row in rows) == list(range(150))
        assert {row["_queue"] for row in rows} == {place.queue}
        (dead,) = place.broker.dead_letters(place.queue)
        assert (dead.body, "does not fit the schema" in dead.headers["localqueue-error"]) == (bad.body, True)
        place.broker.ack([dead])
        assert place.broker.receive(place.queue, 10, wait=0.2) == []
        place.broker.delete(place.queue)
        place.broker.close()


def table(spark: Any, folder: Path) -> Any:
    return spark.read.parquet(f"{folder}/table")
