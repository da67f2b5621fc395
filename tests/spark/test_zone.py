"""Times that name no zone are those of the session, as they are for Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from localqueue.spark.source.zone import moment, zone_of
from localqueue.stores.url import open_store

TIMES = (
    "2026-01-31T12:00:00",
    "2026-07-31T12:00:00.000001",
    "2026-03-29T02:30:00",  # which no clock in Berlin has shown
    "2026-10-25T02:30:00",  # which each has shown twice
    "2026-01-31T12:00:00Z",
    "2026-01-31T12:00:00+05:30",
)


@pytest.fixture
def in_zone(spark: Any) -> Iterator[Any]:
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda name: spark.conf.set("spark.sql.session.timeZone", name)
    spark.conf.set("spark.sql.session.timeZone", before)


def test_a_time_without_a_zone_is_what_spark_takes_it_for(spark: Any, in_zone: Any, tmp_path: Path) -> None:
    texts = [json.dumps({"at": text}) for text in TIMES]
    url = f"sqlite:///{tmp_path / 'times.db'}"
    with closing(open_store(url)) as store:
        store.enable_journal()
        store.put_batch("times", texts, None)
    in_zone("Europe/Berlin")
    (own,) = spark.createDataFrame([(texts,)], "texts array<string>").selectExpr(
        "transform(texts, text -> from_json(text, 'at timestamp').at) AS moments"
    ).select("moments").collect()  # fmt: skip
    read = spark.read.format("localqueue").options(url=url, queue="times").schema("at timestamp").load()
    assert sorted(row["at"] for row in read.collect()) == sorted(own["moments"])
    for mode, name in (("subscribe", ""), ("consume", "etl")):
        stream = spark.readStream.format("localqueue").options(url=url, queue="times", mode=mode)
        stream = stream.option("consumer", name) if name else stream
        stream.schema("at timestamp").load().writeStream.format("parquet").option(
            "checkpointLocation", str(tmp_path / f"checkpoint-{mode}")
        ).trigger(availableNow=True).start(str(tmp_path / mode)).awaitTermination()
        arrived = spark.read.parquet(str(tmp_path / mode)).collect()
        assert sorted(row["at"] for row in arrived) == sorted(own["moments"])


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("UTC", UTC),
        ("Z", UTC),
        ("Asia/Tokyo", ZoneInfo("Asia/Tokyo")),
        ("+02:00", timezone(timedelta(hours=2))),
        ("GMT+2", timezone(timedelta(hours=2))),
        ("UTC-03:30", timezone(-timedelta(hours=3, minutes=30))),
    ],
)
def test_a_zone_has_the_names_that_spark_takes(name: str, zone: Any) -> None:
    assert zone_of(name) == zone


def test_a_zone_that_is_not_known_here_is_named() -> None:
    with pytest.raises(ValueError, match=r"'Mars/Olympus'.*tzdata"):
        zone_of("Mars/Olympus")


def test_outside_of_tasks_a_time_without_a_zone_is_utc() -> None:
    assert moment("2026-01-31T12:00:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert moment("2026-01-31T12:00:00+02:00") == datetime(2026, 1, 31, 10, tzinfo=UTC)
